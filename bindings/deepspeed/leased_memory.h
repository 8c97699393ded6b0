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

/// Bytes of pageable buffers that no budget bounds: what the runtime holds at once (`held_bytes`,
/// most_held_bytes()), and contents on their way to the drive. Pure.
std::uint64_t expect_leased_bytes(const std::vector<PlanTensor>& tensors,
                                  const Placement& placement, std::uint64_t held_bytes);

}  // namespace penstock
