#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/placement.h"

namespace penstock {

/// A tensor that lies on the drives at one time or another.
struct DriveTensor {
  std::size_t index = 0;      ///< into rank_tensors(setup)
  bool is_rewritten = false;  ///< gets a second content there: while training, or by loading
};

struct DriveContents {
  std::vector<DriveTensor> tensors;
  /// Most bytes of new contents on their way to the drives at one time, where there are so many.
  std::uint64_t behind_bytes = 0;
  /// Of them those that pinned memory holds: where drives keep up there are no more.
  std::uint64_t behind_keeping_up_bytes = 0;
};

/// What the drives hold of one rank, from the first parameter that is built on: every parameter of
/// a size to be swapped goes there at first unless ram_bytes has room, wherever the plan has it
/// later, and once more when a checkpoint is loaded into it. Rather too much than too little.
/// `held_bytes` are most_held_bytes(). Pure.
DriveContents expect_drive_contents(const TrainingSetup& setup, const EngineConfig& config,
                                    const std::vector<PlanTensor>& tensors,
                                    const Placement& placement, std::uint64_t held_bytes);

}  // namespace penstock
