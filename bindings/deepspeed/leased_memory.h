#pragma once

#include <cstdint>
#include <vector>

#include "bindings/deepspeed/parameter_fetches.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/placement.h"

namespace penstock {

/// Bytes of tensors that the runtime holds at once: partitions of stage 3, or the optimizer's
/// largest sub-group (master, moments, fp32 gradient, new parameters), whichever is more. Pure.
std::uint64_t most_held_bytes(const TrainingSetup& setup, const ParameterFetches& fetches);

/// Bytes of pageable buffers that no budget bounds: what the runtime holds at once, and contents on
/// their way to the drive. Pure.
std::uint64_t expect_leased_bytes(const TrainingSetup& setup, const ParameterFetches& fetches,
                                  const std::vector<PlanTensor>& tensors,
                                  const Placement& placement);

}  // namespace penstock
