#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/size_class.h"
#include "swap/engine/device_stagings.h"
#include "swap/engine/engine_part.h"
#include "swap/engine/memory_broker.h"
#include "swap/plan/placement.h"

namespace penstock {

/// The plan that divides the engine's memory: made, carried out, and measured by what was held.
/// Thread-safe.
class Planner : private EnginePart {
 public:
  Planner(EngineState& state, MemoryBroker& broker, const DeviceStagings& devices)
      : EnginePart(state), broker_(broker), devices_(devices) {}

  /// Before the pool is opened: what the machine has, and the budgets that come of it.
  Budgets open();

  Result<void> plan();
  /// The first one that wants a tensor makes the plan.
  Result<void> plan_before_use(TensorId tensor);
  Placement placement() const;

  /// As SwapStats says, of what was held until now.
  void update_pinned_need();
  /// SwapStats::pinned_bytes_needed.
  std::uint64_t pinned_need() const noexcept PENSTOCK_NEEDS_LOCK { return pinned_need_.bytes; }

 private:
  struct PinnedNeed {
    std::uint64_t of_version = 0;  // of the ledger, so that it is computed when that has changed
    std::uint64_t bytes = 0;
  };
  Result<std::vector<ClassPlan>> plan_locked(Locked& locked) PENSTOCK_NEEDS_LOCK;
  std::vector<TensorId> planned_ids() const PENSTOCK_NEEDS_LOCK;
  std::vector<PlanTensor> plan_tensors(const std::vector<TensorId>& ids) const PENSTOCK_NEEDS_LOCK;
  Result<Placement> compute(const std::vector<PlanTensor>& tensors) PENSTOCK_NEEDS_LOCK;
  std::vector<ClassPlan> apply(Placement placement, const std::vector<TensorId>& ids,
                               Locked& locked) PENSTOCK_NEEDS_LOCK;
  void drop_read_ahead(Locked& locked) PENSTOCK_NEEDS_LOCK;
  /// Once an engine: the kernel kills a process without a word.
  void warn_beyond_memory();
  void shape_pool(const std::vector<ClassPlan>& classes, IfShaped if_shaped);

  MemoryBroker& broker_;
  const DeviceStagings& devices_;
  BudgetFacts facts_;  // of the machine, when the engine was opened
  /// This rank's share of what was free when the engine was opened, and what it held then.
  std::uint64_t reachable_bytes_ = std::numeric_limits<std::uint64_t>::max();
  bool beyond_memory_ PENSTOCK_GUARDED = false;
  Placement placement_ PENSTOCK_GUARDED;
  PinnedNeed pinned_need_ PENSTOCK_GUARDED;
};

}  // namespace penstock
