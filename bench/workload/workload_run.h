#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/measure/job_result.h"

namespace penstock::bench {

/// What passes between a running thread of a job and its watcher. Thread-safe.
struct RunControl {
  std::atomic<bool> stop{false};             ///< end soon and in good order, with a report
  std::atomic<std::uint64_t> read_bytes{0};  ///< so far
  std::atomic<std::uint64_t> write_bytes{0};
  std::atomic<std::uint64_t> total_bytes{0};  ///< that will be moved; 0: until time is over
};

/// One thread of one job: one kind of workload with its files, memory and engine. Used by one
/// thread.
class WorkloadRun {
 public:
  virtual ~WorkloadRun() = default;
  WorkloadRun() = default;
  WorkloadRun(const WorkloadRun&) = delete;
  WorkloadRun& operator=(const WorkloadRun&) = delete;

  /// Everything that is not measured: files laid out, memory registered, engines open, contents
  /// written that will be read. Errors: errno and path, or a job that makes no sense.
  virtual Result<void> prepare(RunControl& control) = 0;
  /// The measured part. Fills `result` but for its name, group and threads; on an error too, with
  /// what was done until then.
  virtual Result<void> run(RunControl& control, JobResult& result) = 0;
};

// Makers of the `thread`th (from 0) of the `job.numjobs` threads of a job.

/// `workload=raw`: what fio does, over our engines.
std::unique_ptr<WorkloadRun> make_raw_run(const Job& job, std::uint32_t thread);

/// `workload=swap` and `update`: the tensors of an inventory through the production engine. What
/// was written is on its drive when the time ends.
std::unique_ptr<WorkloadRun> make_swap_run(const Job& job, std::uint32_t thread);

/// `workload=replay`: a RecordedTrace through the production engine. Between two uses passes what
/// passed then, less what callers waited in the engine, or `compute=`. What the trace put or read
/// through the caller's own memory is waited for at once. A loop is the whole trace.
std::unique_ptr<WorkloadRun> make_replay_run(const Job& job);

inline std::unique_ptr<WorkloadRun> make_workload_run(const Job& job, std::uint32_t thread) {
  switch (job.workload) {
    case Workload::kRaw:
      return make_raw_run(job, thread);
    case Workload::kSwap:
    case Workload::kUpdate:
      return make_swap_run(job, thread);
    case Workload::kReplay:
      break;
  }
  return make_replay_run(job);
}

}  // namespace penstock::bench
