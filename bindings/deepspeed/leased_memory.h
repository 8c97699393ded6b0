#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bindings/deepspeed/moment_chunks.h"
#include "bindings/deepspeed/parameter_fetches.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/placement.h"

namespace penstock {

/// Bytes of tensors that the runtime holds at once: partitions of stage 3, or the optimizer's
/// largest sub-group (master, moments, fp32 gradient, new parameters), whichever is more. `chunks`
/// are moment_chunks(setup). Pure.
std::uint64_t most_held_bytes(const TrainingSetup& setup, std::span<const MomentChunks> chunks,
                              const ParameterFetches& fetches);

/// Pageable buffers that no budget bounds, bytes.
struct LeasedMemory {
  std::uint64_t held_bytes = 0;    ///< that the runtime holds at once
  std::uint64_t behind_bytes = 0;  ///< contents that wait for a slow drive, at most
};

/// `held_bytes` is most_held_bytes(). Pure.
LeasedMemory expect_leased_memory(const std::vector<PlanTensor>& tensors,
                                  const Placement& placement, std::uint64_t held_bytes);

}  // namespace penstock
