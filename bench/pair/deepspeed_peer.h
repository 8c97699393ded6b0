#pragma once

#include <memory>
#include <string_view>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/pair/measured_run.h"
#include "bench/pair/peer_program.h"

namespace penstock::bench {

/// DeepSpeed as a peer: one Python process for all runs, whose own CPU time counts. It takes the
/// python beside this program (in a virtual environment), else python3 of PATH, and text that
/// travels inside the command: deepspeed/conversation.py says how it is spoken to. The settings to
/// choose from are threads, one request a call, and pipelining.
///
/// workload=raw: its aio handle on the job's file, which one thread reads or writes in order.
/// workload=swap: its own swappers in a directory of theirs below the job's (swapper_work()); a
/// run's bytes are those that the job's callers see moving (phase_bytes), in all of `loops`.
/// Errors: no such Python, no DeepSpeed in it, what the script answers, or work that it cannot do.
Result<std::unique_ptr<PeerProgram>> make_deepspeed_peer(const Job& job);

/// What the script answers to a run. An error if it says one, or no such answer.
Result<MeasuredRun> parse_deepspeed_answer(std::string_view line);

}  // namespace penstock::bench
