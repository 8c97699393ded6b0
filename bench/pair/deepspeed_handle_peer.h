#pragma once

#include <memory>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/pair/peer_program.h"

namespace penstock::bench {

/// DeepSpeed's aio handle as a peer, on the files of a raw job that reads or writes them in order:
/// one Python process for all runs, whose own CPU time counts. Errors: those of DeepSpeedProcess,
/// or a job that the handle cannot do (both directions, random, several threads, several sizes).
Result<std::unique_ptr<PeerProgram>> make_deepspeed_handle_peer(const Job& job);

}  // namespace penstock::bench
