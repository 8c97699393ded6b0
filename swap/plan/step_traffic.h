#pragma once

#include <cstdint>
#include <vector>

#include "swap/plan/placement.h"

namespace penstock {

/// Bytes between this rank and its drives in one training step.
struct StepTraffic {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
};

/// Every tensor on a drive, as often as a step reads and writes it; without padding.
StepTraffic expect_traffic(const std::vector<PlanTensor>& tensors, const Placement& placement);

}  // namespace penstock
