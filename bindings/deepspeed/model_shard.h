#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/deepspeed/torch_archive.h"

namespace penstock {

/// A tensor of the model, whole: what all ranks have of it together.
struct ModelTensor {
  std::string name;
  std::string dtype{};  ///< empty where no file says it
  std::vector<std::uint64_t> shape{};
  std::string role{};       ///< `param`, `frozen`, `buffer`, `shared`
  std::string same_as{};    ///< of `shared`: the tensor that has its bytes
  std::uint64_t bytes = 0;  ///< 0 of `shared`
};

/// A group (stage 3: a sub-group) of trained parameters, which the optimizer has as one flat
/// tensor, partitioned over the ranks.
struct ParameterGroup {
  std::vector<std::string> names;  ///< in the order in which they lie in it
  std::uint64_t elements = 0;
  /// The same with each parameter rounded up to a whole number of elements a rank, of one rank.
  std::uint64_t elements_a_rank = 0;
};

/// What a `…_model_states.pt` says (deepspeed/runtime/engine.py: _common_checkpoint_state).
struct ModelShard {
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> data_parallel;
  std::optional<std::int64_t> model_parallel;
  std::optional<std::int64_t> zero_stage;  ///< of the configuration in it
  std::string version;
  bool has_optimizer = false;              ///< in the same file: without ZeRO
  std::uint64_t optimizer_parameters = 0;  ///< that it has
  bool is_pipelines = false;               ///< its parameters lie in files of layers
  std::vector<std::uint64_t> experts;      ///< by layer that has any: how many
  /// False: stage 3 divides some parameters, or all, over fewer ranks than data_parallel.
  bool is_evenly_divided = true;
  std::vector<ParameterGroup> groups;
  std::vector<ModelTensor> tensors;  ///< in natural order of their names
  /// Tensors that are not among these: quantized, sparse, nested, on the meta device. In natural
  /// order.
  std::vector<std::string> undescribed;
};

ModelShard read_model_shard(const TorchArchive& archive);

/// Adds what files of experts and layers hold. A tensor of which the model's file has the shape
/// only gets its type and bytes from there; those of AutoEP are cut by experts (`experts.w1.3`).
void merge_tensors(std::vector<ModelTensor>& tensors, std::vector<ModelTensor> found);

/// All tensors of a file that has nothing else: of experts, of a pipeline's layer. `prefix` comes
/// in front of names that count within a layer.
std::vector<ModelTensor> read_plain_tensors(const TorchArchive& archive, const std::string& prefix);

}  // namespace penstock
