#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/pair/measured_run.h"
#include "bench/pair/peer_program.h"
#include "bench/process/child_process.h"

namespace penstock::bench {

/// What fio may choose for itself when it does the same work as a job of ours. It gets huge pages
/// from malloc, by a variable of glibc's; its own ways to them need reserved ones. `sqthread_poll`
/// is left out, which spends a core of its own, and `hipri`, which needs a drive that can be
/// polled.
struct FioSettings {
  std::vector<std::string> arguments;
  std::vector<std::string> environment = {};

  /// As a user would write it: environment first, then keys.
  std::string describe() const;
};

/// Those that are worth a trial at `depth`.
std::vector<FioSettings> fio_candidates(std::uint32_t depth);

/// fio's command line for the work of `job` (workload=raw), on the files that the job has: they are
/// there and written, and fio neither makes nor truncates any. Clocks, statistics and changes of
/// the buffers that are not used are switched off, as in a tuned fio.
Command fio_command(const Job& job, const FioSettings& settings);

/// What fio's `--output-format=json` says of all its jobs together: bytes, the longest run time,
/// and the CPU of the threads that did the I/O (`usr_cpu` + `sys_cpu` of their run time). An error
/// if this is no such report, if fio has an errno, or if nothing was moved.
Result<MeasuredRun> parse_fio_report(std::string_view text);

/// Runs fio once. Blocks.
Result<MeasuredRun> run_fio(const Job& job, const FioSettings& settings);

/// fio as a peer: each run is a process of its own, of which what fio itself measures counts.
PeerProgram make_fio_peer(const Job& job);

}  // namespace penstock::bench
