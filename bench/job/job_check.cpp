#include "bench/job/job_check.h"

#include <fmt/format.h>

#include "bench/job/job_key.h"

namespace penstock::bench {
namespace {

// The smallest sector that a drive has. What the file at hand asks for is known when it is opened.
constexpr std::uint64_t kSectorMin = 512;

Refusal check_raw(const Job& job) {
  const std::uint64_t block = job.raw_block_bytes();
  if (job.simulated) {
    return "ioengine=sim is for workload=swap, update and replay; workload=raw measures a real "
           "drive";
  }
  if (job.direct.value_or(false) && block % kSectorMin != 0) {
    return fmt::format("bs={} with direct=1: direct I/O moves whole sectors of {} bytes or more",
                       block, kSectorMin);
  }
  if (job.size == 0 && job.size_percent == 0 && job.direction.writes && job.filename.empty()) {
    return "it writes a file that it makes itself; say how large it is, such as size=1g";
  }
  if (job.size != 0 && job.size < block) {
    return fmt::format("size={} is less than one request (bs={})", job.size, block);
  }
  if (job.io_size && *job.io_size < block) {
    return fmt::format("io_size={} is less than one request (bs={})", *job.io_size, block);
  }
  return {};
}

Refusal check_peer(const Job& job) {
  if (job.verify) {
    return "verify= costs time that a peer does not spend: leave out one of verify= and pair=";
  }
  if (job.engine == EngineKind::kNull || job.simulated) {
    return "pair= needs a drive, and ioengine=null and sim have none";
  }
  if (job.workload == Workload::kSwap && job.peer == Peer::kDeepSpeed &&
      (job.runtime_ns || job.numjobs > 1)) {
    return "DeepSpeed's swappers go through a model `loops` times in one thread: leave out runtime "
           "and numjobs";
  }
  return {};
}

Refusal check_workload(const Job& job) {
  switch (job.workload) {
    case Workload::kRaw:
      return check_raw(job);
    case Workload::kSwap:
    case Workload::kUpdate:
      if (job.inventory.empty()) {
        return fmt::format("workload={} needs a model: inventory=FILE",
                           workload_name(job.workload));
      }
      return {};
    case Workload::kReplay:
      if (job.trace.empty()) {
        return "workload=replay needs a trace: trace=FILE";
      }
      return {};
  }
  return {};
}

}  // namespace

Refusal check_job(const Job& job) {
  if (job.time_based && !job.runtime_ns) {
    return "time_based without a runtime would never end; add one, such as runtime=30s";
  }
  if (Refusal refusal = check_workload(job)) {
    return refusal;
  }
  return job.peer == Peer::kNone ? Refusal() : check_peer(job);
}

}  // namespace penstock::bench
