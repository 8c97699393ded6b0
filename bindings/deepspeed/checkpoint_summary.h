#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/checkpoint_place.h"
#include "bindings/deepspeed/model_shard.h"
#include "bindings/deepspeed/optimizer_shard.h"
#include "bindings/deepspeed/shard_name.h"
#include "bindings/deepspeed/shard_signature.h"

namespace penstock {

/// One file of a checkpoint.
struct CheckpointFile {
  std::string name;  ///< from the checkpoint's directory on: `global_step500/mp_rank_00_…`
  std::string path;
  std::optional<ShardName> shard{};  ///< nothing for what the trainer has put beside
  std::uint64_t bytes = 0;
  std::size_t records = 0;
  bool has_checksums = true;
  std::string problem{};  ///< why it cannot be read; empty where it can
  std::optional<ShardSignature> signature{};
  std::string misplaced{};  ///< why it does not belong to the others; empty where it does

  bool is_safetensors() const { return name.ends_with(".safetensors"); }
  /// A rank's, or one that all ranks share.
  bool is_model_or_optimizer() const {
    return shard && (shard->kind == ShardKind::kModel || shard->kind == ShardKind::kOptimizer);
  }
};

/// Whether training can go on from it.
struct Resumption {
  /// Why not; empty where it can.
  std::vector<std::string> obstacles;
  /// The number of ranks that it takes. Nothing: any number.
  std::optional<std::uint64_t> world_size;

  bool is_possible() const noexcept { return obstacles.empty(); }
};

/// Files that model files speak of, beside those of ranks.
struct Promise {
  std::vector<ShardName> experts;
  std::set<std::uint32_t> layers;  ///< of a pipeline, by the names of its parameters
  /// A pipeline's without ZeRO, which has no names: its files of layers hold no fewer tensors.
  std::uint64_t layer_tensors = 0;
};

/// What a checkpoint of DeepSpeed holds.
struct CheckpointSummary {
  CheckpointPlace place;
  std::string directory;  ///< what names of files begin at: the save directory, or the tag's
  std::string version;    ///< of DeepSpeed; empty where no file says it
  std::optional<std::int64_t> zero_stage;
  std::optional<std::int64_t> step;
  std::set<double> optimizer_steps;
  std::uint64_t data_parallel = 1;
  std::uint64_t model_parallel = 1;
  std::vector<ParameterGroup> groups;
  std::vector<ModelTensor> tensors;
  Promise promise;
  std::uint64_t layer_tensors = 0;  ///< in files of a pipeline's layers
  StateTotals states;               ///< of all ranks
  std::vector<CheckpointFile> files;
  std::vector<std::string> missing;  ///< names of files that belong to it and are not there
  std::vector<std::string> indexes;  ///< of weights in shards, as CheckpointFile::name
  /// Of an earlier save by more ranks: load_checkpoint() does not read them, conversion does.
  std::size_t surplus_files = 0;
  std::vector<std::string> leftovers;  ///< files that were being written when a process died
  /// Copies of the files that stock DeepSpeed swaps to: their number and bytes.
  std::uint64_t offloaded_files = 0;
  std::uint64_t offloaded_bytes = 0;
  bool is_universal = false;  ///< made by ds_to_universal.py
  std::vector<std::string> notes;
  Resumption resumption;

  std::uint64_t tensor_bytes() const noexcept;
  std::uint64_t file_bytes() const noexcept;
};

/// Reads what describes tensors in every file, and none of their bytes. What is wrong with files is
/// in the summary. Errors: errno with the path, where the directory cannot be listed.
Result<CheckpointSummary> summarize_checkpoint(CheckpointPlace place);

}  // namespace penstock
