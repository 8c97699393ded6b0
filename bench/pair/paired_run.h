#pragma once

#include <chrono>
#include <vector>

#include "alloc/result.h"
#include "bench/benchmark.h"
#include "bench/pair/rounds.h"

namespace penstock::bench {

struct PairedRunOptions {
  BenchmarkOptions benchmark = {};
  /// For the peer's best settings; no round begins when `search_time` is over.
  RoundLimits search = {.rounds_max = 7, .rounds_min = 3};
  std::chrono::nanoseconds search_time = std::chrono::seconds(8);
};

/// Runs one job that has a peer: files laid out once and written, both sides warmed, the peer's
/// best settings found, then `job.pairs` pairs in turns. The result is that of our run with the
/// median bandwidth, with `pair` filled. A run moves what the job says (`io_size`, `runtime`), but
/// where it says neither 1 GiB at most: a drive that drifts wants short runs. Of workload=swap both
/// sides are measured by the bytes that callers see, or fio moves as many bytes as our drive saw.
/// Errors: a job that cannot be paired, or a run that fails.
Result<JobResult> run_pair(const Job& job, const PairedRunOptions& options = {});

/// As run_benchmark, but jobs with a peer run alone and as run_pair does; their errors are in their
/// results.
Result<std::vector<JobResult>> run_with_peers(const std::vector<Job>& jobs,
                                              const PairedRunOptions& options = {});

}  // namespace penstock::bench
