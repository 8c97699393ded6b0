#pragma once

#include <memory>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/pair/peer_program.h"

namespace penstock::bench {

/// DeepSpeed's own swappers as a peer of a swap job: the same tensors in the same order, with the
/// same computation between them, through its parameters' and its optimizer's swapper, in a
/// directory of its own below the job's. A run's bytes are those that the job's callers see moving
/// (phase_bytes), in all of `loops`. Errors: those of DeepSpeedProcess and of the job's model, or
/// work that the swappers do not know (states of another kind).
Result<std::unique_ptr<PeerProgram>> make_deepspeed_swapper_peer(const Job& job);

}  // namespace penstock::bench
