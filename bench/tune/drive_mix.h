#pragma once

#include <cstdint>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/training_setup.h"

namespace penstock::bench {

/// What a step moves between a rank and its drives, made small enough for a file to stand for it.
struct DriveMix {
  /// Partitions and states as a drive sees them, in order of use, with the sizes' distribution of
  /// the whole: multiples of 4 KiB, at most kMixTensorBytesMax each.
  std::vector<std::uint64_t> tensors;
  /// Of a whole step: all that DeepSpeed sends to a drive, whatever a plan keeps in RAM.
  std::uint64_t step_read_bytes = 0;
  std::uint64_t step_write_bytes = 0;

  std::uint64_t bytes() const noexcept;
  double read_share() const noexcept;
};

/// A larger tensor counts as several of them: a queue that has been full for so long would only
/// stay full, and each thread of a trial holds one in memory.
inline constexpr std::uint64_t kMixTensorBytesMax = 64ULL << 20;

/// Of `tensors` (rank_tensors()) those that may leave memory, about `bytes_max` of them. Errors:
/// Fault::kConfiguration, nothing of them goes to a drive.
Result<DriveMix> drive_mix(const std::vector<PlanTensor>& tensors, std::uint64_t bytes_max);

}  // namespace penstock::bench
