#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bindings/deepspeed/leased_memory.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/placement.h"

namespace penstock {

enum class Component : std::uint8_t {
  kParameters,
  kGradients,
  kMaster,
  kMoments,
  kActivations,
  kBuffers
};
std::string_view component_name(Component component) noexcept;  ///< parameters, gradients, …

/// Where bytes of a component are.
enum class Storage : std::uint8_t { kDevice, kRam, kPinned, kNvme };
std::string_view storage_name(Storage storage) noexcept;  ///< device, ram, pinned, nvme

struct MemoryRow {
  Component component = Component::kParameters;
  Storage storage = Storage::kDevice;
  std::uint64_t bytes_per_rank = 0;
};

/// What one rank holds, by component and place. Every component has at least one row, and no two
/// rows agree in both. Per rank of `world_size` W, with N elements of parameters:
/// - parameters: at stage 3 ceil(N/W) x held type, where the placement puts them; below N, device
/// - gradients: at stage >= 2 ceil(N/W) x gradient type; below N. RAM where the optimizer is not on
///   the device
/// - master: ceil(N/W) x 4; nothing where fp32 parameters on the device are their own masters
/// - moments: ceil(N/W) x 8 (AdamW), 2 (8-bit), 1 (4-bit)
/// - activations: as given
/// - buffers: our pinned memory; in RAM `leased`; on the device what stage 3 gathers at most at a
///   time
///
/// `tensors` and `placement` are rank_tensors(setup) and what place_tensors() made of them.
std::vector<MemoryRow> make_memory_table(const TrainingSetup& setup,
                                         const std::vector<PlanTensor>& tensors,
                                         const Placement& placement, const LeasedMemory& leased);

/// The row of this component and place; 0 where there is none.
std::uint64_t bytes_of(const std::vector<MemoryRow>& table, Component component,
                       Storage storage) noexcept;

/// Sum over the rows with this place.
std::uint64_t bytes_in(const std::vector<MemoryRow>& table, Storage storage) noexcept;

}  // namespace penstock
