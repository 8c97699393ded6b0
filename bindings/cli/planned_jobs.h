#pragma once

#include <vector>

#include "bench/job/job.h"
#include "bench/report/report.h"

namespace penstock::cli {

/// What `penstock plan` says of each job that swaps the tensors of an inventory; of jobs with the
/// same plan once. A job whose plan cannot be made has the reason in its place.
std::vector<bench::PlannedJobs> planned_jobs(const std::vector<bench::Job>& jobs);

}  // namespace penstock::cli
