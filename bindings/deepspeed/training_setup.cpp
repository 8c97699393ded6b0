#include "bindings/deepspeed/training_setup.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "alloc/bytes.h"
#include "swap/plan/saturating.h"

namespace penstock {
namespace {

// What DeepSpeed calls MIN_AIO_BYTES: below it a transfer costs more than it saves.
constexpr std::uint64_t kMinAioBytes = kMiB;

bool is_floating(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2FNUZ:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
      return true;
    default:
      return false;
  }
}

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) noexcept {
  return (a + b - 1) / b;
}

// The lowest stage of ZeRO that divides tensors of this role among the ranks.
std::uint32_t dividing_stage(Role role) noexcept {
  switch (role) {
    case Role::kParam:
      return 3;
    case Role::kGradient:
      return 2;
    case Role::kMaster:
    case Role::kMoment:
      return 1;
    case Role::kBuffer:
      break;
  }
  return std::numeric_limits<std::uint32_t>::max();
}

}  // namespace

// Trainer goes by names and by the layer's class, which an inventory lacks.
bool decays(const TensorInfo& tensor) noexcept {
  return tensor.shape.size() > 1 && tensor.name.find("bias") == std::string::npos;
}

std::optional<DType> TrainingSetup::model_dtype() const noexcept {
  return has_config ? config.deepspeed.held_dtype() : given_dtype;
}

DType TrainingSetup::held_dtype(const TensorInfo& tensor) const noexcept {
  const bool follows = is_floating(tensor.dtype) &&
                       (tensor.role == Role::kParam || tensor.role == Role::kGradient) &&
                       !typed_tensors.contains(tensor.name);
  return follows ? model_dtype().value_or(tensor.dtype) : tensor.dtype;
}

std::uint64_t TrainingSetup::rank_elements(const TensorInfo& tensor) const noexcept {
  return stage >= dividing_stage(tensor.role) ? divide_up(tensor.elements(), world_size)
                                              : tensor.elements();
}

std::uint64_t TrainingSetup::rank_bytes(const TensorInfo& tensor) const noexcept {
  return packed_bytes(held_dtype(tensor), rank_elements(tensor));
}

bool TrainingSetup::is_large(const TensorInfo& tensor) const noexcept {
  const DType dtype = typed_tensors.contains(tensor.name) ? model_dtype().value_or(DType::kF32)
                                                          : held_dtype(tensor);
  return packed_bytes(dtype, rank_elements(tensor)) >= swappable_bytes_min();
}

OffloadDevice TrainingSetup::param_device() const noexcept {
  const bool can = stage == 3 && config.deepspeed.offload_param.has_value();
  return can ? config.deepspeed.offload_param->device : OffloadDevice::kNone;
}

OffloadDevice TrainingSetup::optimizer_device() const noexcept {
  const bool can = stage >= 1 && config.deepspeed.offload_optimizer.has_value();
  if (!can) {
    return OffloadDevice::kNone;
  }
  const OffloadDevice device = config.deepspeed.offload_optimizer->device;
  // Below stage 3 DeepSpeed takes "nvme" for "cpu" without a word.
  return device == OffloadDevice::kNvme && stage < 3 ? OffloadDevice::kCpu : device;
}

bool TrainingSetup::offloads_to_nvme() const noexcept {
  return param_device() == OffloadDevice::kNvme || optimizer_device() == OffloadDevice::kNvme;
}

std::uint64_t TrainingSetup::buffer_bytes() const noexcept {
  if (!has_config || param_device() != OffloadDevice::kNvme) {
    return 0;
  }
  const std::uint64_t element = dtype_bytes(config.deepspeed.held_dtype());
  return multiply_saturating(config.deepspeed.offload_param->buffer_size, element);
}

std::uint64_t TrainingSetup::swappable_bytes_min() const noexcept {
  return std::max(kMinAioBytes, config.deepspeed.aio.block_size);
}

bool TrainingSetup::lists(Role role) const noexcept {
  return std::any_of(inventory.tensors.begin(), inventory.tensors.end(),
                     [role](const TensorInfo& tensor) { return tensor.role == role; });
}

std::uint32_t TrainingSetup::passes_per_step() const noexcept {
  const DeepSpeedConfig& file = config.deepspeed;
  std::uint64_t passes = file.gradient_accumulation_steps;
  if (passes == 0 && file.micro_batch_size != 0) {
    passes = file.train_batch_size / file.micro_batch_size / world_size;
  }
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(passes, 1, 1U << 20));
}

bool TrainingSetup::applies_max_in_cpu() const noexcept {
  return has_config && param_device() == OffloadDevice::kNvme &&
         (trained_is_given ||
          config.origins.contains("zero_optimization.offload_param.max_in_cpu"));
}

bool TrainingSetup::trains(const TensorInfo& tensor) const noexcept {
  return tensor.role == Role::kParam && tensor.is_trained && tensor.elements() != 0 &&
         is_floating(tensor.dtype) && optimizer != OptimizerKind::kNone;
}

bool TrainingSetup::keeps_two_gradients() const noexcept {
  const bool keeps = stage == 3 || (stage == 2 && passes_per_step() > 1 &&
                                    config.deepspeed.master_element_bytes == sizeof(float));
  return keeps && optimizer_device() == OffloadDevice::kCpu;
}

bool TrainingSetup::swaps_optimizer() const noexcept {
  return has_config && optimizer != OptimizerKind::kNone &&
         optimizer_device() == OffloadDevice::kNvme;
}

bool TrainingSetup::splits_vectors() const noexcept {
  return has_config && config.deepspeed.optimizer_type.empty() && !config.automatic.empty();
}

std::vector<std::size_t> TrainingSetup::trained() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < inventory.tensors.size(); ++i) {
    if (trains(inventory.tensors[i])) {
      places.push_back(i);
    }
  }
  if (splits_vectors()) {
    std::ranges::stable_partition(
        places, [this](std::size_t place) { return decays(inventory.tensors[place]); });
  }
  return places;
}

std::vector<SubGroup> TrainingSetup::sub_groups() const {
  std::vector<std::uint64_t> partitions;
  const bool splits = splits_vectors();
  std::size_t first_group = 0;
  for (const std::size_t place : trained()) {
    const TensorInfo& tensor = inventory.tensors[place];
    partitions.push_back(partition_elements(tensor));
    first_group += !splits || decays(tensor) ? 1U : 0U;
  }
  const std::span<const std::uint64_t> all(partitions);
  const std::uint64_t size = config.deepspeed.sub_group_size;
  std::vector<SubGroup> groups = make_sub_groups(all.first(first_group), size);
  for (SubGroup group : make_sub_groups(all.subspan(first_group), size)) {
    group.first += first_group;
    group.end += first_group;
    groups.push_back(group);
  }
  return groups;
}

std::vector<OptimizerState> TrainingSetup::optimizer_states() const {
  return optimizer == OptimizerKind::kAdamW && !optimizer_is_given
             ? config.deepspeed.optimizer_states
             : adam_states();
}

std::uint64_t TrainingSetup::moment_bytes(std::uint64_t elements) const {
  return optimizer == OptimizerKind::kAdamW
             ? optimizer_states().size() * config.deepspeed.state_element_bytes * elements
             : penstock::moment_bytes(optimizer, elements);
}

std::uint64_t TrainingSetup::partition_elements(const TensorInfo& tensor) const noexcept {
  return divide_up(tensor.elements(), stage >= 1 ? world_size : 1);
}

StateFormats TrainingSetup::state_formats() const {
  StateFormats formats = config.states;
  if (optimizer == OptimizerKind::kAdamW8Bit) {
    formats.narrow = StateFormat::k8Bit;
  } else if (optimizer == OptimizerKind::kAdamW4Bit) {
    formats.narrow = StateFormat::k4Bit;
  }
  return formats;
}

bool TrainingSetup::steps_in_chunks() const noexcept {
  return swaps_optimizer() && config.deepspeed.is_elementwise;
}

bool TrainingSetup::steps_by_kernels() const noexcept {
  return swaps_optimizer() && config.deepspeed.has_cpu_adam;
}

std::uint64_t TrainingSetup::largest_sub_group() const {
  std::uint64_t largest = 0;
  for (const SubGroup& group : sub_groups()) {
    largest = std::max(largest, group.elements);
  }
  return largest;
}

}  // namespace penstock
