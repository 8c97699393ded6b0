#pragma once

#include <memory>

#include "bench/workload/workload_run.h"

namespace penstock::bench {

/// `workload=update`: the optimizer states of a model (fp32 master and two moments of every
/// parameter) read, stepped by AdamW and written, chunk by chunk of kStateChunkElements. A loop is
/// one step over all of them. verify= compares every element with the same steps made beside.
std::unique_ptr<WorkloadRun> make_update_run(const Job& job, std::uint32_t thread);

}  // namespace penstock::bench
