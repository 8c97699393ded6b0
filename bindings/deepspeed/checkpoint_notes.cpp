#include "bindings/deepspeed/checkpoint_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "alloc/excerpt.h"

namespace penstock {
namespace {

void note_place(CheckpointSummary& summary) {
  const CheckpointPlace& place = summary.place;
  for (const ModelWeights& weights : place.weights) {
    if (weights.is_stub()) {
      summary.notes.push_back(fmt::format("in {} {}; the weights are in {}", weights.directory,
                                          weights.stub_sentence(), place.tag_directory));
    }
    std::ranges::copy(weights.problems, std::back_inserter(summary.notes));
  }
  if (!place.save_directory.empty() && !place.is_named_by_latest) {
    summary.notes.push_back(
        fmt::format("{} has no file latest: load_checkpoint() takes this one with tag=\"{}\" only",
                    place.save_directory, excerpt(place.tag)));
  }
  for (const std::string& folder : place.passed_over) {
    summary.notes.push_back(fmt::format("{} has no files of DeepSpeed and was passed over",
                                        excerpt(place.named + "/" + folder)));
  }
}

/// As those of AutoEP's experts at stage 3, whose module is in no file.
void note_untyped(CheckpointSummary& summary) {
  const auto is_untyped = [](const ModelTensor& tensor) {
    return tensor.dtype.empty() && tensor.same_as.empty();
  };
  const auto first = std::ranges::find_if(summary.tensors, is_untyped);
  if (first != summary.tensors.end()) {
    summary.notes.push_back(
        fmt::format("no file says the type of {} tensors, whose bytes are not counted; the first "
                    "is {}",
                    std::count_if(first, summary.tensors.end(), is_untyped), first->name));
  }
}

}  // namespace

void note_contents(CheckpointSummary& summary) {
  note_place(summary);
  note_untyped(summary);
  if (summary.model_parallel > 1) {
    summary.notes.push_back(
        fmt::format("tensors are those of model-parallel rank 0 of {}", summary.model_parallel));
  }
}

}  // namespace penstock
