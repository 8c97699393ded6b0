#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/model_weights.h"

namespace penstock {

/// Where the checkpoint lies that a directory stands for.
struct CheckpointPlace {
  std::string named;  ///< by the user
  /// What DeepSpeed's load_checkpoint() takes: the folder of `latest`. Empty where the user named
  /// the folder of a tag.
  std::string save_directory;
  std::string tag;
  std::string tag_directory;  ///< with the files of all ranks
  bool is_named_by_latest = false;
  /// What else could be meant, from `named` on: other tags, other `checkpoint-N`. Newest first,
  /// names that are no step behind.
  std::vector<std::string> others;
  /// Of `others`: folders of a later step, without files of DeepSpeed.
  std::vector<std::string> passed_over;
  /// Weights that lie beside, of each folder from `named` to `save_directory`.
  std::vector<ModelWeights> weights;
};

/// The checkpoint of DeepSpeed that `directory` is, or that lies in it: the folder of a tag, a
/// folder with `latest`, a Trainer's `checkpoint-500`, or a folder of several of these, of which
/// the newest is taken. Nothing where there is none. Errors: errno with the path, where it cannot
/// be listed; Fault::kInvalidArgument: `latest` names nothing that is there, or the weights in it
/// are stubs and no checkpoint of DeepSpeed lies beside them.
Result<std::optional<CheckpointPlace>> find_checkpoint(const std::string& directory);

}  // namespace penstock
