#pragma once

#include <memory>
#include <string_view>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/pair/fio_settings.h"
#include "bench/pair/measured_run.h"
#include "bench/pair/peer_program.h"
#include "bench/process/child_process.h"

namespace penstock::bench {

/// fio's command line for the work of `job` (workload=raw), on the files that the job has: they are
/// there and written, and fio neither makes nor truncates any. Clocks, statistics and changes of
/// the buffers that are not used are switched off, as in a tuned fio.
Command fio_command(const Job& job, const FioSettings& settings);

/// What fio's `--output-format=json` says of all its jobs together: bytes, the longest run time,
/// and the CPU of the threads that did the I/O (`usr_cpu` + `sys_cpu` of their run time). An error
/// if this is no such report, if fio tells an errno, or if nothing was moved.
Result<MeasuredRun> parse_fio_report(std::string_view text);

/// Runs fio once. Blocks.
Result<MeasuredRun> run_fio(const Job& job, const FioSettings& settings);

/// fio as a peer: each run is a process of its own, of which what fio itself measures counts.
std::unique_ptr<PeerProgram> make_fio_peer(const Job& job);

}  // namespace penstock::bench
