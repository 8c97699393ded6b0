#include "bindings/deepspeed/training_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "alloc/bytes.h"
#include "bindings/deepspeed/moment_chunks.h"
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

bool is_optimizer_state(Role role) noexcept {
  return role == Role::kMaster || role == Role::kMoment || role == Role::kGradient;
}

void stay(PlanTensor& tensor, Place place, std::string why) {
  tensor.swappable = false;
  tensor.place_unswapped = place;
  tensor.why_unswapped = std::move(why);
}

// Where DeepSpeed has a parameter that it does not send to a drive.
void place_parameter(const TrainingSetup& setup, const TensorInfo& info, PlanTensor& tensor) {
  const std::uint64_t threshold = setup.config.deepspeed.stage3_param_persistence_threshold;
  if (setup.stage < 3) {
    stay(tensor, Place::kDevice,
         fmt::format("ZeRO stage {} keeps parameters whole on every rank", setup.stage));
  } else if (setup.has_config && setup.param_device() == OffloadDevice::kNone) {
    stay(tensor, Place::kDevice, "the configuration does not offload parameters");
  } else if (setup.has_config && setup.param_device() == OffloadDevice::kCpu) {
    stay(tensor, Place::kRam, "offload_param.device is cpu: DeepSpeed keeps it in RAM");
  } else if (!setup.is_large(info)) {
    const bool persists = info.elements() <= threshold;
    stay(tensor, persists ? Place::kDevice : Place::kRam,
         fmt::format("smaller than {} bytes, not worth I/O; DeepSpeed keeps it {}",
                     setup.swappable_bytes_min(),
                     persists ? "on the device" : "in RAM, outside of ram_bytes"));
  }
}

// By `judged_bytes` it is worth I/O or not.
void place_optimizer_state(const TrainingSetup& setup, Role role, std::uint64_t judged_bytes,
                           PlanTensor& tensor) {
  if (!setup.has_config) {
    return;
  }
  const OffloadDevice device = setup.optimizer_device();
  if (device == OffloadDevice::kNone) {
    stay(tensor, Place::kDevice, "the configuration does not offload the optimizer");
  } else if (device == OffloadDevice::kCpu || role == Role::kGradient) {
    stay(tensor, Place::kRam, "DeepSpeed keeps it in RAM");
  } else if (judged_bytes < setup.swappable_bytes_min()) {
    stay(tensor, Place::kRam, "too small to be worth I/O");
  }
}

PlanTensor rank_tensor(const TrainingSetup& setup, const TensorInfo& info) {
  TensorInfo held = info;
  held.is_trained = setup.trains(info);
  PlanTensor tensor = plan_tensor(held, setup.rank_bytes(info));
  if (info.role == Role::kParam) {
    place_parameter(setup, info, tensor);
  } else if (is_optimizer_state(info.role)) {
    place_optimizer_state(setup, info.role, tensor.bytes, tensor);
  } else {
    stay(tensor, Place::kDevice, "buffers of the model stay on the device");
  }
  return tensor;
}

// `offload_param.max_in_cpu`: once the model is built, stage 3 moves the first sub-groups of
// trained parameters, up to so many elements of this rank, into RAM for good
// (_create_fp16_partitions_with_defragmentation()). Frozen ones are in no sub-group.
void keep_in_cpu(const TrainingSetup& setup, std::vector<PlanTensor>& tensors) {
  if (!setup.applies_max_in_cpu()) {
    return;
  }
  const std::uint64_t limit = setup.config.deepspeed.offload_param->max_in_cpu;
  const std::vector<std::size_t> trained = setup.trained();
  std::uint64_t elements = 0;
  for (const SubGroup& group : setup.sub_groups()) {
    elements += group.elements;
    for (std::size_t k = group.first; k < group.end && elements <= limit; ++k) {
      if (tensors[trained[k]].swappable) {
        stay(tensors[trained[k]], Place::kRam,
             fmt::format("max_in_cpu of {} elements: DeepSpeed moves it to RAM once the model is "
                         "built, outside of ram_bytes",
                         limit));
      }
    }
  }
}

// Where it lies is decided for the whole state, by the bytes of the sub-group's master.
PlanTensor whole_state(const TrainingSetup& setup, const std::string& name, std::uint64_t bytes,
                       std::uint64_t master_bytes, bool is_stepped = true) {
  PlanTensor whole =
      plan_tensor({name, DType::kF32, {bytes / 4}, Role::kMoment, is_stepped}, bytes);
  place_optimizer_state(setup, Role::kMoment, master_bytes, whole);
  return whole;
}

// Cut as the step needs it.
void append_chunks(PlanTensor whole, const std::vector<std::uint64_t>& chunk_bytes,
                   std::vector<PlanTensor>& tensors) {
  if (!whole.swappable) {
    tensors.push_back(std::move(whole));
    return;
  }
  for (std::size_t i = 0; i < chunk_bytes.size(); ++i) {
    PlanTensor tensor = whole;
    tensor.name = chunk_bytes.size() == 1 ? whole.name : fmt::format("{}/{}", whole.name, i);
    tensor.bytes = chunk_bytes[i];
    tensors.push_back(std::move(tensor));
  }
}

// Of each chunk of a sub-group: bytes of its master, or of one of its moments.
struct ChunkBytes {
  std::vector<std::uint64_t> master;
  std::vector<std::uint64_t> moment;
};

std::vector<ChunkBytes> chunk_bytes(const TrainingSetup& setup) {
  std::vector<ChunkBytes> bytes;
  if (!setup.steps_in_chunks()) {
    for (const SubGroup& group : setup.sub_groups()) {
      bytes.push_back({{group.elements * setup.config.deepspeed.master_element_bytes},
                       {setup.optimizer == OptimizerKind::kAdamW
                            ? group.elements * setup.config.deepspeed.state_element_bytes
                            : moment_bytes(setup.optimizer, group.elements) / 2}});
    }
    return bytes;
  }
  for (const MomentChunks& group : moment_chunks(setup)) {
    ChunkBytes& of_group = bytes.emplace_back();
    for (const std::vector<StateSegment>& chunk : group) {
      of_group.master.push_back(elements_of(chunk) * 4);
      of_group.moment.push_back(state_bytes(chunk));
    }
  }
  return bytes;
}

void append_optimizer_states(const TrainingSetup& setup, std::vector<PlanTensor>& tensors) {
  if (!setup.swaps_optimizer()) {
    return;
  }
  const bool has_masters = setup.lists(Role::kMaster);
  const bool has_moments = setup.lists(Role::kMoment);
  const std::vector<SubGroup> groups = setup.sub_groups();
  // In the order in which training makes them: masters at the start, moments in the first step.
  const std::vector<ChunkBytes> bytes = chunk_bytes(setup);
  const std::uint64_t element_bytes = setup.config.deepspeed.master_element_bytes;
  for (std::size_t i = 0; i < groups.size() && !has_masters; ++i) {
    const std::uint64_t whole = groups[i].elements * element_bytes;
    append_chunks(whole_state(setup, fmt::format("sub-group {} master", i), whole, whole),
                  bytes[i].master, tensors);
  }
  for (std::size_t i = 0; i < groups.size() && !has_moments; ++i) {
    const std::uint64_t master = groups[i].elements * element_bytes;
    const std::uint64_t whole = setup.steps_in_chunks() ? master : bytes[i].moment.front();
    const std::uint64_t judged = setup.optimizer == OptimizerKind::kAdamW ? master : whole;
    for (const OptimizerState& state : setup.optimizer_states()) {
      append_chunks(whole_state(setup, fmt::format("sub-group {} {}", i, state.name), whole, judged,
                                state.is_stepped),
                    bytes[i].moment, tensors);
    }
  }
}

// All but biases and norms. Trainer goes by names and by the layer's class, which an inventory
// lacks.
bool decays(const TensorInfo& tensor) noexcept {
  return tensor.shape.size() > 1 && tensor.name.find("bias") == std::string::npos;
}

}  // namespace

DType TrainingSetup::held_dtype(const TensorInfo& tensor) const noexcept {
  const bool follows = has_config && is_floating(tensor.dtype) &&
                       (tensor.role == Role::kParam || tensor.role == Role::kGradient) &&
                       !typed_tensors.contains(tensor.name);
  return follows ? config.deepspeed.held_dtype() : tensor.dtype;
}

std::uint64_t TrainingSetup::rank_elements(const TensorInfo& tensor) const noexcept {
  return stage >= dividing_stage(tensor.role) ? divide_up(tensor.elements(), world_size)
                                              : tensor.elements();
}

std::uint64_t TrainingSetup::rank_bytes(const TensorInfo& tensor) const noexcept {
  return rank_elements(tensor) * dtype_bytes(held_dtype(tensor));
}

bool TrainingSetup::is_large(const TensorInfo& tensor) const noexcept {
  const DType dtype =
      typed_tensors.contains(tensor.name) ? config.deepspeed.held_dtype() : held_dtype(tensor);
  return rank_elements(tensor) * dtype_bytes(dtype) >= swappable_bytes_min();
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
  return tensor.role == Role::kParam && tensor.is_trained && is_floating(tensor.dtype) &&
         optimizer != OptimizerKind::kNone;
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

std::vector<PlanTensor> rank_tensors(const TrainingSetup& setup) {
  std::vector<PlanTensor> tensors;
  tensors.reserve(setup.inventory.tensors.size());
  for (const TensorInfo& info : setup.inventory.tensors) {
    tensors.push_back(rank_tensor(setup, info));
  }
  keep_in_cpu(setup, tensors);
  append_optimizer_states(setup, tensors);
  return tensors;
}

}  // namespace penstock
