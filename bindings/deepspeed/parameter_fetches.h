#pragma once

#include <cstdint>
#include <vector>

#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/placement.h"

namespace penstock {

/// What DeepSpeed's stage 3 fetches in one training step, once it knows the order of the modules.
struct ParameterFetches {
  std::vector<std::uint32_t> by_tensor;  ///< by tensor of the inventory; of others its reads
  std::uint64_t held_bytes_max = 0;      ///< most bytes from drives that are held at once
};

/// `tensors` and `placement` are rank_tensors(setup) and what place_tensors() made of them.
///
/// Each parameter once in forward and once in backward where neither the user nor the file says
/// what is trained. Multiplied by the passes of a step. Follows DeepSpeed 0.19.8's
/// PartitionedParameterCoordinator (fetch, prefetch, release) over module_calls(). Adds the
/// gathering of all parameters where the trainer generates (`setup.generates`). Not known and left
/// out: recomputation (gradient checkpointing fetches a layer once more), modules that a forward
/// calls several times (ALBERT), whose weights an outer module reads itself (Mamba's tied head),
/// that a batch does not use or that have no parameters below them. Pure; time is linear in the
/// inventory for all but the smallest parameters.
ParameterFetches expect_fetches(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
                                const Placement& placement);

}  // namespace penstock
