#pragma once

#include <memory>

#include "bench/workload/workload_run.h"

namespace penstock::bench {

/// `workload=raw`: what fio does, over our engines.
std::unique_ptr<WorkloadRun> make_raw_run(const Job& job, std::uint32_t thread);

}  // namespace penstock::bench
