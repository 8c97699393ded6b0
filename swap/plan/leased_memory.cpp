#include "swap/plan/leased_memory.h"

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock {
namespace {

// What contents may fill on their way to the drive beyond what callers hold: the engine's limit.
constexpr std::uint64_t kWriteBehindBytes = 256 * kMiB;
constexpr std::uint64_t kGradientBytes = 4;  // of the copy that is stepped, fp32

bool is_on_drive(const PlacedTensor& placed) noexcept {
  return placed.place != Place::kRam && placed.place != Place::kDevice;
}

// What the optimizer holds while it steps its largest sub-group.
std::uint64_t step_bytes(const TrainingSetup& setup) {
  if (!setup.has_config || setup.optimizer == OptimizerKind::kNone ||
      setup.optimizer_device() != OffloadDevice::kNvme) {
    return 0;
  }
  std::uint64_t largest = 0;
  for (const SubGroup& group : setup.sub_groups()) {
    largest = std::max(largest, group.elements);
  }
  return largest * (4 + kGradientBytes + dtype_bytes(setup.config.deepspeed.held_dtype())) +
         moment_bytes(setup.optimizer, largest);
}

}  // namespace

std::uint64_t expect_leased_bytes(const TrainingSetup& setup, const ParameterFetches& fetches,
                                  const std::vector<PlanTensor>& tensors,
                                  const Placement& placement) {
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_written = is_on_drive(placement.tensors[i]) && tensors[i].writes_per_step != 0;
    written += is_written ? tensors[i].bytes : 0;
  }
  return std::max(fetches.held_bytes_max, step_bytes(setup)) + std::min(kWriteBehindBytes, written);
}

}  // namespace penstock
