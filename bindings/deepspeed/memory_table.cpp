#include "bindings/deepspeed/memory_table.h"

#include <algorithm>
#include <array>
#include <optional>

#include "swap/plan/saturating.h"
#include "swap/plan/tensor_name.h"

namespace penstock {
namespace {

constexpr std::size_t kComponents = 6;
constexpr std::size_t kStorages = 4;
constexpr std::array<std::string_view, kComponents> kComponentNames{
    "parameters", "gradients", "master", "moments", "activations", "buffers"};
constexpr std::array<std::string_view, kStorages> kStorageNames{"device", "ram", "pinned", "nvme"};

using Cells = std::array<std::array<std::uint64_t, kStorages>, kComponents>;

std::uint64_t& cell(Cells& cells, Component component, Storage storage) {
  return cells[static_cast<std::size_t>(component)][static_cast<std::size_t>(storage)];
}

Storage storage_of(Place place) noexcept {
  switch (place) {
    case Place::kDevice:
      return Storage::kDevice;
    case Place::kRam:
      return Storage::kRam;
    default:
      return Storage::kNvme;  // whichever memory it passes through, that is where it lies
  }
}

Storage storage_of(OffloadDevice device) noexcept {
  return device == OffloadDevice::kNone  ? Storage::kDevice
         : device == OffloadDevice::kCpu ? Storage::kRam
                                         : Storage::kNvme;
}

Component component_of(Role role) noexcept {
  switch (role) {
    case Role::kParam:
      return Component::kParameters;
    case Role::kMaster:
      return Component::kMaster;
    case Role::kMoment:
      return Component::kMoments;
    case Role::kGradient:
      return Component::kGradients;
    case Role::kBuffer:
      break;
  }
  return Component::kBuffers;
}

// The states that rank_tensors() appends behind the inventory are named by what they are.
Component component_of_state(const PlanTensor& tensor) noexcept {
  return whole_name(tensor.name).ends_with(" master") ? Component::kMaster : Component::kMoments;
}

void add_placed(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
                const Placement& placement, Cells& cells) {
  const std::vector<TensorInfo>& infos = setup.inventory.tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Component component =
        i < infos.size() ? component_of(infos[i].role) : component_of_state(tensors[i]);
    cell(cells, component, storage_of(placement.tensors[i].place)) += tensors[i].bytes;
  }
}

// A parameter's share for what the optimizer's stage divides.
std::uint64_t share(const TrainingSetup& setup, const TensorInfo& info, std::uint32_t stage) {
  const std::uint64_t elements = info.elements();
  return setup.stage >= stage ? (elements + setup.world_size - 1) / setup.world_size : elements;
}

// Gradients of an optimizer in RAM. It has one of its own, as wide as its masters, and perhaps the
// one of the backward beside it. While a step has passes left, stage 1 leaves that whole on the
// device.
void add_gradient_in_ram(const TrainingSetup& setup, const TensorInfo& info, Cells& cells) {
  const DeepSpeedConfig& config = setup.config.deepspeed;
  const std::uint64_t elements = share(setup, info, 1);
  const DType held = setup.held_dtype(info);
  cell(cells, Component::kGradients, Storage::kRam) += elements * config.master_element_bytes;
  if (setup.keeps_two_gradients()) {
    const DType dtype = setup.stage == 3 ? config.gradient_dtype.value_or(held) : held;
    cell(cells, Component::kGradients, Storage::kRam) += elements * dtype_bytes(dtype);
  } else if (setup.stage == 1 && setup.passes_per_step() > 1) {
    cell(cells, Component::kGradients, Storage::kDevice) += info.elements() * dtype_bytes(held);
  }
}

void add_gradients(const TrainingSetup& setup, Cells& cells) {
  const bool is_on_device = setup.optimizer_device() == OffloadDevice::kNone;
  const std::optional<DType> dtype = setup.config.deepspeed.gradient_dtype;
  for (const TensorInfo& info : setup.inventory.tensors) {
    if (!setup.trains(info)) {
      continue;
    }
    if (setup.optimizer_device() == OffloadDevice::kCpu) {
      add_gradient_in_ram(setup, info, cells);
    } else {
      cell(cells, Component::kGradients, is_on_device ? Storage::kDevice : Storage::kRam) +=
          share(setup, info, 2) * dtype_bytes(dtype.value_or(setup.held_dtype(info)));
    }
  }
}

// Below stage 3 an optimizer in RAM has its new weights there in the type of the parameters before
// they go to the device, and a buffer for the largest gradient on either side. Source: DeepSpeed
// 0.19, stage_1_and_2.py: param_buffer_of_bit16_for_cpu_offload_groups, temp_grad_buffer_for_*.
void add_offload_buffers(const TrainingSetup& setup, Cells& cells) {
  if (setup.stage == 3 || setup.optimizer_device() != OffloadDevice::kCpu) {
    return;
  }
  std::uint64_t largest = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    if (setup.trains(info)) {
      const std::uint64_t held = dtype_bytes(setup.held_dtype(info));
      cell(cells, Component::kBuffers, Storage::kRam) += share(setup, info, 1) * held;
      largest = std::max(largest, info.elements() * held);
    }
  }
  cell(cells, Component::kBuffers, Storage::kRam) += largest;
  cell(cells, Component::kBuffers, Storage::kDevice) += largest;
}

// Whether parameters of this type are their own masters: DeepSpeed's stage 3 makes no copy of what
// is fp32 already and lies where the step runs; the other stages always copy.
bool is_own_master(const TrainingSetup& setup, const TensorInfo& info) {
  const bool on_device = setup.param_device() == OffloadDevice::kNone &&
                         setup.optimizer_device() == OffloadDevice::kNone;
  return setup.stage == 3 && setup.held_dtype(info) == DType::kF32 && on_device;
}

void add_optimizer(const TrainingSetup& setup, Cells& cells) {
  const Storage storage = storage_of(setup.optimizer_device());
  if (storage == Storage::kNvme) {
    return;  // its tensors are placed one by one
  }
  const bool has_masters = setup.lists(Role::kMaster);
  const bool has_moments = setup.lists(Role::kMoment);
  for (const TensorInfo& info : setup.inventory.tensors) {
    if (!setup.trains(info)) {
      continue;
    }
    const std::uint64_t elements = share(setup, info, 1);
    if (!has_masters && !is_own_master(setup, info)) {
      cell(cells, Component::kMaster, storage) +=
          elements * setup.config.deepspeed.master_element_bytes;
    }
    if (!has_moments) {
      cell(cells, Component::kMoments, storage) += setup.moment_bytes(elements);
    }
  }
}

// Stage 3 gathers whole parameters on the device before use, up to stage3_max_live_parameters at a
// time but at least the largest. One rank whose parameters are on the device already copies
// nothing.
std::uint64_t gathered_bytes(const TrainingSetup& setup) {
  const bool is_there = setup.world_size == 1 && setup.param_device() == OffloadDevice::kNone;
  if (setup.stage < 3 || (setup.has_config && is_there)) {
    return 0;
  }
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    if (info.role == Role::kParam) {
      elements += info.elements();
      bytes += packed_bytes(setup.held_dtype(info), info.elements());
      largest = std::max(largest, info.elements());
    }
  }
  const std::uint64_t live = std::max(setup.config.deepspeed.stage3_max_live_parameters, largest);
  if (live >= elements) {
    return bytes;
  }
  // A mixed inventory has no one type; its mean is near enough for a bound that is itself a limit.
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * static_cast<double>(live) /
                                    static_cast<double>(elements));
}

}  // namespace

std::string_view component_name(Component component) noexcept {
  return kComponentNames[static_cast<std::size_t>(component)];
}

std::string_view storage_name(Storage storage) noexcept {
  return kStorageNames[static_cast<std::size_t>(storage)];
}

std::vector<MemoryRow> make_memory_table(const TrainingSetup& setup,
                                         const std::vector<PlanTensor>& tensors,
                                         const Placement& placement, const LeasedMemory& leased) {
  Cells cells{};
  add_placed(setup, tensors, placement, cells);
  if (setup.optimizer != OptimizerKind::kNone) {
    if (!setup.lists(Role::kGradient)) {
      add_gradients(setup, cells);
    }
    add_optimizer(setup, cells);
    add_offload_buffers(setup, cells);
  }
  cell(cells, Component::kActivations, Storage::kDevice) = setup.activation_bytes;
  cell(cells, Component::kBuffers, Storage::kPinned) +=
      placement.pinned_bytes + placement.budgets.device_bytes;
  cell(cells, Component::kBuffers, Storage::kRam) += leased.held_bytes + leased.behind_bytes;
  cell(cells, Component::kBuffers, Storage::kDevice) += gathered_bytes(setup);

  std::vector<MemoryRow> table;
  for (std::size_t c = 0; c < kComponents; ++c) {
    const std::size_t before = table.size();
    for (std::size_t s = 0; s < kStorages; ++s) {
      if (cells[c][s] != 0) {
        table.push_back({static_cast<Component>(c), static_cast<Storage>(s), cells[c][s]});
      }
    }
    if (table.size() == before) {
      table.push_back({static_cast<Component>(c), Storage::kDevice, 0});
    }
  }
  return table;
}

std::uint64_t bytes_of(const std::vector<MemoryRow>& table, Component component,
                       Storage storage) noexcept {
  const auto row = std::ranges::find_if(table, [&](const MemoryRow& each) {
    return each.component == component && each.storage == storage;
  });
  return row == table.end() ? 0 : row->bytes_per_rank;
}

std::uint64_t bytes_in(const std::vector<MemoryRow>& table, Storage storage) noexcept {
  std::uint64_t bytes = 0;
  for (const MemoryRow& row : table) {
    bytes = add_saturating(bytes, row.storage == storage ? row.bytes_per_rank : 0);
  }
  return bytes;
}

}  // namespace penstock
