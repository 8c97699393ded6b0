#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bindings/deepspeed/config.h"
#include "bindings/deepspeed/optimizer_kind.h"
#include "bindings/deepspeed/sub_group.h"
#include "swap/plan/inventory.h"

namespace penstock {

/// Whether Trainer's optimizer has the parameter in its first group, which decays: all but biases
/// and norms.
bool decays(const TensorInfo& tensor) noexcept;

/// What a user wants to train and how: what `penstock plan` is asked about.
struct TrainingSetup {
  Inventory inventory;  ///< in the order of building, which DeepSpeed's sub-groups follow
  /// Places in it in the order of use, where a trace says that; empty: the order of building.
  std::vector<std::size_t> use_order = {};
  Config config;            ///< all defaults where there is no file
  bool has_config = false;  ///< of DeepSpeed; false: the whole inventory is to be swapped as it is
  std::uint32_t stage = 3;  ///< of ZeRO, 0 to 3
  std::uint32_t world_size = 1;
  std::uint32_t ranks_on_node = 1;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  bool optimizer_is_given = false;  ///< beside the file, whose section does not count then
  /// Of the model, from the user or a launcher; counts where there is no configuration.
  std::optional<DType> given_dtype = {};
  bool trained_is_given = false;  ///< the user has said which parameters are trained
  /// Tensors whose type the user has given: the configuration's is not theirs.
  std::set<std::string> typed_tensors = {};
  bool generates = false;  ///< the trainer gathers all parameters for generation, once a step
  std::uint64_t activation_bytes = 0;  ///< per rank; given by the user, never derived

  /// The type that parameters and gradients of a floating type are held in: the configuration's,
  /// without one given_dtype. Nothing: each in its own.
  std::optional<DType> model_dtype() const noexcept;
  /// The type that a rank holds the tensor in: model_dtype(), or its own.
  DType held_dtype(const TensorInfo& tensor) const noexcept;
  /// Elements of this rank: ceil(elements / world size) of what the stage divides, else all.
  std::uint64_t rank_elements(const TensorInfo& tensor) const noexcept;
  std::uint64_t rank_bytes(const TensorInfo& tensor) const noexcept;
  /// Whether a parameter's share is large enough for the drives, as DeepSpeed reckons: in the
  /// configuration's type, also where its own is another.
  bool is_large(const TensorInfo& tensor) const noexcept;

  /// Where DeepSpeed keeps what it does not keep on the device.
  OffloadDevice param_device() const noexcept;
  OffloadDevice optimizer_device() const noexcept;
  /// Whether either is NVMe.
  bool offloads_to_nvme() const noexcept;
  /// DeepSpeed's buffer_size in bytes where parameters are on NVMe, else 0; the planner's hint.
  std::uint64_t buffer_bytes() const noexcept;
  /// Tensors below this stay off the drives: max(1 MiB, aio.block_size), as in DeepSpeed.
  std::uint64_t swappable_bytes_min() const noexcept;
  /// Whether the inventory itself lists tensors of `role` (then nothing is derived for it).
  bool lists(Role role) const noexcept;
  /// Passes forward and backward a step: gradient_accumulation_steps, or what the batch sizes make
  /// of it; 1 where the file leaves it to the script.
  std::uint32_t passes_per_step() const noexcept;
  /// Whether the plan follows `max_in_cpu`: its default is larger than many models, and moves what
  /// is trained to RAM, so it counts where the file has it or what is trained is known.
  bool applies_max_in_cpu() const noexcept;
  /// Whether the optimizer steps the tensor: a parameter that is not frozen, nor empty. DeepSpeed
  /// has these in no sub-group (is_optimized_parameter()).
  bool trains(const TensorInfo& tensor) const noexcept;
  /// Whether RAM has gradients twice, for the optimizer there and as the backward makes them: stage
  /// 3 always, stage 2 while a step has passes left, unless masters are of the parameters' type.
  /// Source: DeepSpeed 0.19, initialize_optimizer_states() of stage3.py and stage_1_and_2.py, and
  /// there copy_grads_in_partition().
  bool keeps_two_gradients() const noexcept;
  /// Whether an optimizer's states are on NVMe.
  bool swaps_optimizer() const noexcept;
  /// Whether the optimizer has biases and norms in a second group: where the file has "auto", which
  /// is for transformers' Trainer, and names no optimizer, so that Trainer makes one. Source:
  /// transformers 5, Trainer.create_optimizer and get_decay_parameter_names.
  bool splits_vectors() const noexcept;
  /// Places in the inventory of the trained parameters, in the order in which the optimizer has
  /// them: by its parameter groups, in each by the inventory.
  std::vector<std::size_t> trained() const;
  /// The optimizer's sub-groups over trained(): none is of two parameter groups.
  std::vector<SubGroup> sub_groups() const;
  /// What the optimizer keeps beside masters.
  std::vector<OptimizerState> optimizer_states() const;
  /// Bytes of them for `elements` parameters.
  std::uint64_t moment_bytes(std::uint64_t elements) const;
  /// Elements of a trained parameter that this rank's optimizer steps, padding included.
  std::uint64_t partition_elements(const TensorInfo& tensor) const noexcept;
  /// How moments are to be stored: the file's, unless the optimizer says so.
  StateFormats state_formats() const;
  /// Whether the step goes chunk by chunk over its states, of kStateChunkElements each, instead of
  /// over whole sub-groups.
  bool steps_in_chunks() const noexcept;
  /// Whether penstock's kernels step them, which know moments in fewer bits.
  bool steps_by_kernels() const noexcept;
  /// Elements of the largest of them on this rank; 0: there is none.
  std::uint64_t largest_sub_group() const;
};

}  // namespace penstock
