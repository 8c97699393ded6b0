#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "swap/plan/inventory.h"
#include "swap/plan/place.h"

namespace penstock {

/// One tensor as the planner sees it: bytes held by this rank and how often a step touches them.
struct PlanTensor {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t reads_per_step = 2;  ///< fetches from the drive if it is not kept
  std::uint32_t writes_per_step = 0;
  bool swappable = true;  ///< false: stays where the runtime has it, outside of all budgets
  Place place_unswapped = Place::kRam;  ///< where that is: kRam or kDevice
  /// Null: too small to be worth I/O. Many tensors share a text.
  std::shared_ptr<const std::string> why_unswapped;
};

/// The one rule for what a training step does with a tensor, for `penstock plan` and the engine
/// alike: a parameter is read in forward and in backward and, if it is trained, written once; an
/// optimizer state is read and written once, or never used. `bytes` are those of this rank. Pure.
PlanTensor plan_tensor(std::string name, Role role, bool is_trained, std::uint64_t bytes);

}  // namespace penstock
