#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bindings/deepspeed/drive_contents.h"
#include "bindings/deepspeed/feasibility.h"
#include "bindings/deepspeed/machine_fit.h"
#include "bindings/deepspeed/memory_table.h"
#include "bindings/deepspeed/parameter_fetches.h"
#include "bindings/deepspeed/process_memory.h"
#include "bindings/deepspeed/step_traffic.h"
#include "bindings/deepspeed/stock_deepspeed.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/placement.h"

namespace penstock {

/// Everything that `penstock plan` prints, for one rank.
struct SwapPlan {
  TrainingSetup setup;
  std::vector<PlanTensor> tensors;  ///< rank_tensors(setup)
  /// Of an infeasible plan: what it would be with the budget that is too small lifted.
  Placement placement;
  Feasibility feasibility;
  std::vector<MemoryRow> memory;
  ParameterFetches fetches;
  DriveContents drives;
  ProcessMemory process;
  StepTraffic traffic;
  std::optional<double> lower_bound_seconds;  ///< of a step; nothing: no drive's speed is known
  bool has_stated_drives = false;             ///< it is by MachineFacts::drives
  StockDeepSpeed stock;
  std::vector<PlanWarning> warnings;  ///< of the file, of stock, of this machine

  /// What this machine lacks first; nothing: the plan is feasible here.
  const PlanWarning* misfit() const noexcept;
  bool fits() const noexcept { return feasibility.feasible && misfit() == nullptr; }
};

/// Plans from nothing but its arguments.
SwapPlan make_swap_plan(TrainingSetup setup, const MachineFacts& machine);

}  // namespace penstock
