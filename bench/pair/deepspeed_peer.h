#pragma once

#include <string_view>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/pair/measured_run.h"
#include "bench/pair/peer_program.h"

namespace penstock::bench {

/// DeepSpeed as a peer: one Python process for all runs, whose own CPU time counts, by scripts that
/// travel inside the command. Of workload=raw its aio handle on the job's file; of workload=swap
/// its swappers in a directory of theirs below the job's (swapper_work()).
/// Errors: no such Python, no DeepSpeed in it, what the script answers, or work that it cannot do.
Result<PeerProgram> make_deepspeed_peer(const Job& job);

/// What the script answers to a run. An error if it says one, or no such answer.
Result<MeasuredRun> parse_deepspeed_answer(std::string_view line);

}  // namespace penstock::bench
