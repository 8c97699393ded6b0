#pragma once

#include <functional>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/measure/job_result.h"

namespace penstock::bench {

/// Progress while jobs run.
struct BenchmarkProgress {
  std::uint32_t jobs_running = 0;
  std::uint64_t read_bytes = 0;  ///< of the running jobs, so far
  std::uint64_t write_bytes = 0;
  std::uint64_t elapsed_ns = 0;
  double share_done = 0;  ///< 0..1, of bytes or of time
};

struct BenchmarkOptions {
  /// Called about twice a second on a thread of its own while jobs run; may be empty.
  std::function<void(const BenchmarkProgress&)> progress = {};
  /// Asked about ten times a second; true: every job ends soon and reports what it did. May be
  /// empty.
  std::function<bool()> interrupted = {};
};

/// Runs jobs as fio does: those between two stonewalls at the same time, each with `numjobs`
/// threads. One result a thread, or one for all threads of a job with group_reporting; in the order
/// of the jobs. A job that fails has its errno and sentence in its result, and the others go on;
/// an error of this function is a list of jobs that cannot begin.
Result<std::vector<JobResult>> run_benchmark(const std::vector<Job>& jobs,
                                             const BenchmarkOptions& options = {});

}  // namespace penstock::bench
