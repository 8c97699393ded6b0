#pragma once

#include <memory>

#include "bench/workload/workload_run.h"

namespace penstock::bench {

/// `workload=replay`: a recorded trace (RecordedTrace) through the production engine, on one thread
/// in the recorded order. Between two uses passes what passed between them when they were recorded,
/// less what callers waited in the engine then; `compute=` puts a time for each tensor that is
/// fetched in its place. What the trace put or read through the caller's own memory is waited for
/// at once. A loop is the whole trace, from the first declaration on.
std::unique_ptr<WorkloadRun> make_replay_run(const Job& job, std::uint32_t thread);

}  // namespace penstock::bench
