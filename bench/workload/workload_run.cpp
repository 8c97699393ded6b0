#include "bench/workload/workload_run.h"

#include <fmt/format.h>

namespace penstock::bench {

Result<std::unique_ptr<WorkloadRun>> make_workload_run(const Job& job, std::uint32_t thread) {
  switch (job.workload) {
    case Workload::kRaw:
      return make_raw_run(job, thread);
    case Workload::kSwap:
    case Workload::kUpdate:
      return make_swap_run(job, thread);
    case Workload::kReplay:
      return make_replay_run(job, thread);
  }
  return fault(Fault::kUnsupported, fmt::format("job {} has no workload", job.name));
}

}  // namespace penstock::bench
