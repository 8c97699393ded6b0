#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/deepspeed/feasibility.h"
#include "bindings/deepspeed/plan_warning.h"
#include "bindings/deepspeed/process_memory.h"
#include "bindings/deepspeed/step_traffic.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/placement.h"

namespace penstock {

/// A directory for swapped tensors, as it is found on this machine.
struct PathFacts {
  std::string path;
  bool exists = false;
  std::uint64_t free_bytes =
      0;                ///< on its file system, for this user; of the nearest parent if missing
  std::string problem;  ///< why it cannot be used: an errno's text; empty where nothing is known
  std::optional<std::uint64_t> drive = {};  ///< its file system's number; nothing: not known
};

/// What this machine has. Nothing in it decides whether a plan is feasible within its budgets: what
/// this machine lacks is a warning that says so (`is_misfit`).
struct MachineFacts {
  std::uint64_t mem_available_bytes = 0;       ///< 0: not known
  std::optional<std::uint64_t> memlock_bytes;  ///< `ulimit -l`; nothing: no limit for us
  std::vector<PathFacts> paths;
  std::optional<DriveSpeeds> drives = {};  ///< as the user states them; nothing: as measured
  /// False: training runs on the CPU, the device's memory is the host's.
  bool has_accelerator = true;
  /// Partitions go to a device through pinned memory, whose share of max_pinned_bytes the pool
  /// lacks.
  bool stages_for_device = false;
  bool is_elsewhere = false;  ///< memory is another machine's: drives that lack room are no misfit
};

/// One warning for everything in the plan that this machine cannot hold. `drives`:
/// drive_needs_by_path() of one rank.
std::vector<PlanWarning> warn_about_machine(const MachineFacts& machine, const TrainingSetup& setup,
                                            const Placement& placement,
                                            const std::vector<DriveNeed>& drives,
                                            const ProcessMemory& process);

/// Where the default of max_pinned_bytes, a share of this machine's memory, is too little for the
/// plan: the memory that is enough. Empty where warn_about_machine() names as much.
std::vector<PlanWarning> warn_about_default(const MachineFacts& machine, const TrainingSetup& setup,
                                            const Placement& placement,
                                            const ProcessMemory& process);

}  // namespace penstock
