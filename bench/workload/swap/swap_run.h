#pragma once

#include <memory>

#include "bench/workload/workload_run.h"

namespace penstock::bench {

/// `workload=swap` and `update`: the tensors of an inventory fetched and written in the order of a
/// phase, through the public interface of the production engine and as the DeepSpeed backend uses
/// it: get and give back, get to change and commit, allocate and commit. prepare() writes all
/// contents and goes through two loops, so that what is measured is a steady state; what was
/// written is on its drive when the time ends.
std::unique_ptr<WorkloadRun> make_swap_run(const Job& job, std::uint32_t thread);

}  // namespace penstock::bench
