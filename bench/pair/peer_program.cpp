#include "bench/pair/peer_program.h"

#include "bench/pair/deepspeed_handle_peer.h"
#include "bench/pair/deepspeed_swapper_peer.h"
#include "bench/pair/fio_peer.h"

namespace penstock::bench {

Result<std::unique_ptr<PeerProgram>> make_peer_program(const Job& job) {
  switch (job.peer) {
    case Peer::kFio:
      return make_fio_peer(job);
    case Peer::kDeepSpeed:
      return job.workload == Workload::kSwap ? make_deepspeed_swapper_peer(job)
                                             : make_deepspeed_handle_peer(job);
    case Peer::kNone:
      break;
  }
  return fault(Fault::kInvalidArgument, "the job names no peer");
}

}  // namespace penstock::bench
