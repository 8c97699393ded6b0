#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "alloc/memory_source.h"
#include "alloc/result.h"
#include "bench/pair/measured_run.h"
#include "bench/tune/drive_mix.h"
#include "bench/workload/raw_file.h"
#include "bench/workload/workload_run.h"
#include "io/engine_probe.h"

namespace penstock::bench {

/// What a trial does, and for how long.
struct TrialLoad {
  double read_share = 1;  ///< of the bytes; 1 reads, 0 writes
  std::chrono::nanoseconds length{};
};

/// Drives with a file each, in which a mix's tensors lie behind each other, and short runs over
/// them. The files have no names from the moment they are complete. Used by one thread.
class DriveTrial {
 public:
  /// Reserves and writes the files. `control.stop` ends everything early, here and in trials. Both
  /// outlive this object. Errors: errno and path (missing, not writable, full, no direct I/O);
  /// ECANCELED, here and of trials.
  static Result<std::unique_ptr<DriveTrial>> prepare(const DriveMix& mix,
                                                     const std::vector<std::string>& paths,
                                                     RunControl& control);

  /// As our engine does: registered memory, one queue a drive that never runs dry; several paths at
  /// the same time, each for itself.
  Result<MeasuredRun> run(std::span<const std::size_t> paths, EngineKind engine,
                          const TrialLoad& load);

 private:
  struct Worker;

  DriveTrial(const DriveMix& mix, RunControl& control) : mix_(mix), control_(control) {}

  const DriveMix& mix_;
  RunControl& control_;
  std::vector<RawFile> files_;  // one a path
  Memory arena_;  // the same pages for every trial: fresh ones can cost more than the trial
};

}  // namespace penstock::bench
