#include "bindings/deepspeed/rank_tensors.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

namespace penstock {
namespace {

bool is_optimizer_state(Role role) noexcept {
  return role == Role::kMaster || role == Role::kMoment || role == Role::kGradient;
}

using Text = std::shared_ptr<const std::string>;

template <class... Arguments>
Text text(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return std::make_shared<const std::string>(
      fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Why tensors stay off the drives, for a user. A million of them share these.
struct Reasons {
  explicit Reasons(const TrainingSetup& setup)
      : whole(text("ZeRO stage {} keeps parameters whole on every rank", setup.stage)),
        small_on_device(text("smaller than {} bytes, not worth I/O; DeepSpeed keeps it on the "
                             "device",
                             setup.swappable_bytes_min())),
        small_in_ram(text("smaller than {} bytes, not worth I/O; DeepSpeed keeps it in RAM, "
                          "outside of ram_bytes",
                          setup.swappable_bytes_min())) {}

  Text whole;
  Text small_on_device;
  Text small_in_ram;
  Text not_offloaded = text("the configuration does not offload parameters");
  Text offloaded_to_cpu = text("offload_param.device is cpu: DeepSpeed keeps it in RAM");
  Text optimizer_not_offloaded = text("the configuration does not offload the optimizer");
  Text optimizer_in_ram = text("DeepSpeed keeps it in RAM");
  Text small_state = text("too small to be worth I/O");
  Text buffer = text("buffers of the model stay on the device");
};

void stay(PlanTensor& tensor, Place place, const Text& why) {
  tensor.swappable = false;
  tensor.place_unswapped = place;
  tensor.why_unswapped = why;
}

// Where DeepSpeed has a parameter that it does not send to a drive.
void place_parameter(const TrainingSetup& setup, const Reasons& reasons, const TensorInfo& info,
                     PlanTensor& tensor) {
  const std::uint64_t threshold = setup.config.deepspeed.stage3_param_persistence_threshold;
  if (setup.stage < 3) {
    stay(tensor, Place::kDevice, reasons.whole);
  } else if (setup.has_config && setup.param_device() == OffloadDevice::kNone) {
    stay(tensor, Place::kDevice, reasons.not_offloaded);
  } else if (setup.has_config && setup.param_device() == OffloadDevice::kCpu) {
    stay(tensor, Place::kRam, reasons.offloaded_to_cpu);
  } else if (!setup.is_large(info)) {
    const bool persists = info.elements() <= threshold;
    stay(tensor, persists ? Place::kDevice : Place::kRam,
         persists ? reasons.small_on_device : reasons.small_in_ram);
  }
}

// By `judged_bytes` it is worth I/O or not.
void place_optimizer_state(const TrainingSetup& setup, const Reasons& reasons, Role role,
                           std::uint64_t judged_bytes, PlanTensor& tensor) {
  if (!setup.has_config) {
    return;
  }
  const OffloadDevice device = setup.optimizer_device();
  if (device == OffloadDevice::kNone) {
    stay(tensor, Place::kDevice, reasons.optimizer_not_offloaded);
  } else if (device == OffloadDevice::kCpu || role == Role::kGradient) {
    stay(tensor, Place::kRam, reasons.optimizer_in_ram);
  } else if (judged_bytes < setup.swappable_bytes_min()) {
    stay(tensor, Place::kRam, reasons.small_state);
  }
}

PlanTensor rank_tensor(const TrainingSetup& setup, const Reasons& reasons, const TensorInfo& info) {
  PlanTensor tensor = plan_tensor(info.name, info.role, setup.trains(info), setup.rank_bytes(info));
  if (info.role == Role::kParam) {
    place_parameter(setup, reasons, info, tensor);
  } else if (is_optimizer_state(info.role)) {
    place_optimizer_state(setup, reasons, info.role, tensor.bytes, tensor);
  } else {
    stay(tensor, Place::kDevice, reasons.buffer);
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
  const Text why = text(
      "max_in_cpu of {} elements: DeepSpeed moves it to RAM once the model is "
      "built, outside of ram_bytes",
      limit);
  const std::vector<std::size_t> trained = setup.trained();
  std::uint64_t elements = 0;
  for (const SubGroup& group : setup.sub_groups()) {
    elements += group.elements;
    for (std::size_t k = group.first; k < group.end && elements <= limit; ++k) {
      if (tensors[trained[k]].swappable) {
        stay(tensors[trained[k]], Place::kRam, why);
      }
    }
  }
}

// Where it lies is decided for the whole state, by the bytes of the sub-group's master.
PlanTensor whole_state(const TrainingSetup& setup, const Reasons& reasons, std::string name,
                       std::uint64_t bytes, std::uint64_t master_bytes, bool is_stepped = true) {
  PlanTensor whole = plan_tensor(std::move(name), Role::kMoment, is_stepped, bytes);
  place_optimizer_state(setup, reasons, Role::kMoment, master_bytes, whole);
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
    if (chunk_bytes.size() > 1) {
      tensor.name.append("/").append(fmt::format_int(i).c_str());
    }
    tensor.bytes = chunk_bytes[i];
    tensors.push_back(std::move(tensor));
  }
}

// Of each chunk of a sub-group: bytes of its master, or of one of its moments.
struct ChunkBytes {
  std::vector<std::uint64_t> master;
  std::vector<std::uint64_t> moment;
};

std::vector<ChunkBytes> chunk_bytes(const TrainingSetup& setup, std::span<const SubGroup> groups,
                                    std::span<const MomentChunks> chunks) {
  std::vector<ChunkBytes> bytes;
  if (!setup.steps_in_chunks()) {
    for (const SubGroup& group : groups) {
      bytes.push_back({{group.elements * setup.config.deepspeed.master_element_bytes},
                       {setup.optimizer == OptimizerKind::kAdamW
                            ? group.elements * setup.config.deepspeed.state_element_bytes
                            : moment_bytes(setup.optimizer, group.elements) / 2}});
    }
    return bytes;
  }
  for (const MomentChunks& group : chunks) {
    ChunkBytes& of_group = bytes.emplace_back();
    for (const std::vector<StateSegment>& chunk : group) {
      of_group.master.push_back(elements_of(chunk) * 4);
      of_group.moment.push_back(state_bytes(chunk));
    }
  }
  return bytes;
}

std::size_t count(std::span<const ChunkBytes> bytes, std::size_t states) {
  std::size_t chunks = 0;
  for (const ChunkBytes& of_group : bytes) {
    chunks += of_group.master.size() + states * of_group.moment.size();
  }
  return chunks;
}

void append_optimizer_states(const TrainingSetup& setup, const Reasons& reasons,
                             std::span<const SubGroup> groups, std::span<const ChunkBytes> bytes,
                             std::vector<PlanTensor>& tensors) {
  const bool has_masters = setup.lists(Role::kMaster);
  const bool has_moments = setup.lists(Role::kMoment);
  const std::vector<OptimizerState> states = setup.optimizer_states();
  const std::uint64_t element_bytes = setup.config.deepspeed.master_element_bytes;
  // In the order in which training makes them: masters at the start, moments in the first step.
  for (std::size_t i = 0; i < groups.size() && !has_masters; ++i) {
    const std::uint64_t whole = groups[i].elements * element_bytes;
    append_chunks(whole_state(setup, reasons, fmt::format("sub-group {} master", i), whole, whole),
                  bytes[i].master, tensors);
  }
  for (std::size_t i = 0; i < groups.size() && !has_moments; ++i) {
    const std::uint64_t master = groups[i].elements * element_bytes;
    const std::uint64_t whole = setup.steps_in_chunks() ? master : bytes[i].moment.front();
    const std::uint64_t judged = setup.optimizer == OptimizerKind::kAdamW ? master : whole;
    for (const OptimizerState& state : states) {
      append_chunks(whole_state(setup, reasons, fmt::format("sub-group {} {}", i, state.name),
                                whole, judged, state.is_stepped),
                    bytes[i].moment, tensors);
    }
  }
}

}  // namespace

std::vector<PlanTensor> rank_tensors(const TrainingSetup& setup,
                                     std::span<const MomentChunks> chunks) {
  std::vector<SubGroup> groups;
  std::vector<ChunkBytes> bytes;
  if (setup.swaps_optimizer()) {
    groups = setup.sub_groups();
    bytes = chunk_bytes(setup, groups, chunks);
  }
  const Reasons reasons(setup);
  std::vector<PlanTensor> tensors;
  tensors.reserve(setup.inventory.tensors.size() + count(bytes, setup.optimizer_states().size()));
  for (const TensorInfo& info : setup.inventory.tensors) {
    tensors.push_back(rank_tensor(setup, reasons, info));
  }
  keep_in_cpu(setup, tensors);
  append_optimizer_states(setup, reasons, groups, bytes, tensors);
  return tensors;
}

}  // namespace penstock
