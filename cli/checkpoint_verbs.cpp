#include "cli/checkpoint_verbs.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <memory>
#include <utility>

#include "bindings/deepspeed/checkpoint_place.h"
#include "bindings/deepspeed/checkpoint_summary.h"
#include "bindings/deepspeed/checkpoint_verification.h"
#include "bindings/deepspeed/directory_listing.h"
#include "bindings/deepspeed/older_checkpoint.h"
#include "cli/checkpoint_report.h"
#include "cli/progress_line.h"
#include "cli/store_access.h"
#include "cli/verb.h"

namespace penstock::cli {
namespace {

bool is_store(const std::string& directory) {
  struct ::stat facts{};
  return ::lstat((directory + "/manifest").c_str(), &facts) == 0;
}

/// Nothing where there is a store, or no directory: the store's verb says what is wrong with it.
std::optional<Result<CheckpointSummary>> summarize(const std::string& directory) {
  if (is_store(directory) || list_directory(directory).has_error()) {
    return std::nullopt;
  }
  Result<std::optional<CheckpointPlace>> place = find_checkpoint(directory);
  if (place.has_error()) {
    return std::move(place).error();
  }
  if (!place->has_value()) {
    return fault(
        Fault::kInvalidArgument,
        fmt::format("{} is no durable store of penstock, it has no manifest; and no checkpoint "
                    "of DeepSpeed, which has a file latest or folders like global_step500 "
                    "or checkpoint-500; name the directory that has one of these",
                    directory));
  }
  return summarize_checkpoint(std::move(**place));
}

Result<CheckpointVerification> verify(const CheckpointSummary& summary) {
  const Result<std::unique_ptr<IoQueue>> queue = start_queue();
  PENSTOCK_TRY(queue);
  ProgressLine progress("verified");
  return verify_checkpoint(summary, **queue, [&progress](std::uint64_t done, std::uint64_t total) {
    progress.update(done, total);
  });
}

}  // namespace

std::optional<int> inspect_checkpoint(const std::string& directory, bool as_json) {
  std::optional<Result<CheckpointSummary>> summary = summarize(directory);
  if (!summary) {
    return std::nullopt;
  }
  if (summary->has_error()) {
    return failed(summary->error());
  }
  CheckpointSummary& found = **summary;
  if (const auto older =
          found.resumption.is_possible() ? std::nullopt : find_older_checkpoint(found)) {
    found.notes.push_back("the newest that can be resumed is " + *older);
  }
  fmt::print("{}", as_json ? summary_json(found) : summary_text(found));
  if (found.resumption.is_possible()) {
    return kDone;
  }
  report_error(fmt::format("{} cannot be resumed: {}", found.place.tag_directory,
                           fmt::join(found.resumption.obstacles, "; ")));
  return kFailed;
}

std::optional<int> verify_checkpoint_at(const std::string& directory, bool as_json) {
  const std::optional<Result<CheckpointSummary>> summary = summarize(directory);
  if (!summary) {
    return std::nullopt;
  }
  if (summary->has_error()) {
    return failed(summary->error());
  }
  const CheckpointSummary& found = **summary;
  const Result<CheckpointVerification> verified = verify(found);
  if (verified.has_error()) {
    return failed(verified.error());
  }
  fmt::print("{}",
             as_json ? verification_json(found, *verified) : verification_text(found, *verified));
  if (verified->is_good()) {
    return kDone;
  }
  report_error(fmt::format("{} records or files of {} are bad, {} are missing",
                           verified->damaged.size(), found.directory, verified->missing.size()));
  return kFailed;
}

}  // namespace penstock::cli
