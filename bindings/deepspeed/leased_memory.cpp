#include "bindings/deepspeed/leased_memory.h"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::uint64_t kGradientBytes = 4;  // of the copy that is stepped, fp32

// What the optimizer holds while it steps its largest sub-group.
std::uint64_t step_bytes(const TrainingSetup& setup) {
  if (!setup.swaps_optimizer()) {
    return 0;
  }
  const std::uint64_t largest = setup.largest_sub_group();
  return largest * (4 + kGradientBytes + dtype_bytes(setup.config.deepspeed.held_dtype())) +
         moment_bytes(setup.optimizer, largest);
}

}  // namespace

std::uint64_t expect_leased_bytes(const TrainingSetup& setup, const ParameterFetches& fetches,
                                  const std::vector<PlanTensor>& tensors,
                                  const Placement& placement) {
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_written =
        is_on_drive(placement.tensors[i].place) && tensors[i].writes_per_step != 0;
    written += is_written ? tensors[i].bytes : 0;
  }
  return std::max(fetches.held_bytes_max, step_bytes(setup)) +
         std::min(kWriteBackSlackBytes, written);
}

}  // namespace penstock
