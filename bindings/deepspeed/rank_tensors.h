#pragma once

#include <span>
#include <vector>

#include "bindings/deepspeed/moment_chunks.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/plan_tensor.h"

namespace penstock {

/// The tensors of one rank as the planner sees them: those of the inventory in its order, behind
/// them the optimizer states that the configuration sends to NVMe (master and moments of each
/// sub-group, or their chunks). `chunks` are moment_chunks(setup). Pure.
std::vector<PlanTensor> rank_tensors(const TrainingSetup& setup,
                                     std::span<const MomentChunks> chunks);

}  // namespace penstock
