#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/drive_contents.h"
#include "bindings/deepspeed/plan_warning.h"
#include "swap/plan/placement.h"

namespace penstock {

/// Whether a plan can be carried out within the budgets that were given.
///
/// Why a plan that fits cannot deadlock: what is waited for is only a slot that an operation in
/// flight gives back by itself (Buffer::expect_return); a lease that the runtime holds is never
/// waited for, because beyond the slots there is pageable memory, into which streamed tensors are
/// read; transfers of unaligned memory need the staging chunks only, which are theirs alone and
/// come back with each completion. So it is enough that the staging, what the rules pin and keep,
/// and the space on the drives are there.
struct Feasibility {
  bool feasible = true;
  std::string
      reason;  ///< the first blocker: tensor, the number that is too small, the smallest that works
  std::string tensor;  ///< the one that the reason names
};

/// place_tensors()' refusal as a feasibility.
Feasibility infeasible(const Error& error);

/// Space of one rank on the drives: every tensor that comes to lie on them with the block that
/// identifies it, and room for the new contents that are on their way at one time, since none
/// overwrites the last good one. 0 where nothing lies on a drive. And the largest content in it,
/// which lies whole on one drive.
struct DriveNeed {
  std::uint64_t bytes = 0;
  std::uint64_t largest_bytes = 0;
};

/// One for each of Config::paths() where parameters and states have one each, in that order;
/// else one for all of them.
std::vector<DriveNeed> drive_needs_by_path(const TrainingSetup& setup,
                                           const std::vector<PlanTensor>& tensors,
                                           const DriveContents& contents);

/// What several drives need together beyond the bytes of `need`: each but one may be left with a
/// gap that the largest content does not fit into.
std::uint64_t gap_bytes(const DriveNeed& need, std::size_t drives) noexcept;

/// Looks at the drives' stated limits (`penstock.paths[].max_bytes`), which hold for a rank's
/// parameters and for its states, each for itself; a path without one has no limit here. Refuses
/// what has no room for each content once and for the new ones on their way to drives that keep up
/// (DriveContents::behind_keeping_up_bytes); training has stopped for want of space there. The
/// other budgets have been held by place_tensors().
Feasibility check_drives(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
                         const DriveContents& contents, const std::vector<PathConfig>& paths);

/// The warning `drive-limit` where these limits allow that, but not all that may be on its way
/// (drive_needs_by_path()): how much is depends on the drives' speed.
std::vector<PlanWarning> warn_about_limits(const TrainingSetup& setup,
                                           const std::vector<PlanTensor>& tensors,
                                           const DriveContents& contents,
                                           const std::vector<PathConfig>& paths);

}  // namespace penstock
