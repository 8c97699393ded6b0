#pragma once

#include <cstdint>
#include <span>

#include "alloc/result.h"
#include "swap/plan/plan_tensor.h"

namespace penstock::bench {

/// What a step moves between a rank and its drives, whatever a plan keeps in RAM.
struct DriveMix {
  std::uint64_t tensors = 0;  ///< partitions and states that may leave memory
  std::uint64_t bytes = 0;    ///< theirs together
  std::uint64_t step_read_bytes = 0;
  std::uint64_t step_write_bytes = 0;

  double read_share() const noexcept;
  /// Of a request: our engine's own, less where tensors are smaller on the average. Whole blocks.
  std::uint64_t request_bytes() const noexcept;
};

/// Errors: Fault::kConfiguration, nothing of `tensors` goes to a drive.
Result<DriveMix> drive_mix(std::span<const PlanTensor> tensors);

}  // namespace penstock::bench
