#include "bindings/deepspeed/older_checkpoint.h"

#include <utility>

namespace penstock {

std::optional<std::string> find_older_checkpoint(const CheckpointSummary& summary) {
  const CheckpointPlace& place = summary.place;
  for (const std::string& other : place.others) {
    Result<std::optional<CheckpointPlace>> found = find_checkpoint(place.named + "/" + other);
    if (found.has_error() || !found->has_value()) {
      continue;
    }
    const Result<CheckpointSummary> older = summarize_checkpoint(std::move(**found));
    if (older.has_value() && older->resumption.is_possible()) {
      return older->place.tag_directory;
    }
  }
  return std::nullopt;
}

}  // namespace penstock
