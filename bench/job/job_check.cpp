#include "bench/job/job_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "bench/job/fio_word.h"
#include "bench/job/job_key.h"
#include "bench/job/job_number.h"

namespace penstock::bench {
namespace {

// The smallest sector that a drive has. What the file at hand asks for is known when it is opened.
constexpr std::uint64_t kSectorMin = 512;
constexpr std::uint64_t kRawBlock = 4 * kKiB;  // fio's default

/// The sizes of the requests that the job makes.
std::vector<std::uint64_t> block_sizes(const Job& job) {
  std::vector<std::uint64_t> sizes;
  const auto add = [&sizes](bool happens, const std::vector<BlockShare>& shares) {
    if (!happens) {
      return;
    }
    for (const BlockShare& share : shares) {
      sizes.push_back(share.bytes);
    }
    if (shares.empty()) {
      sizes.push_back(kRawBlock);
    }
  };
  add(job.direction.reads, job.read_blocks);
  add(job.direction.writes, job.write_blocks);
  return sizes;
}

std::uint64_t smallest(const std::vector<std::uint64_t>& sizes) {
  return sizes.empty() ? kRawBlock : *std::ranges::min_element(sizes);
}

/// Bytes of each of the job's files; 0 where it does not say.
std::uint64_t file_bytes(const Job& job) {
  const std::size_t files = job.filenames.empty() ? job.nrfiles : job.filenames.size();
  return files == 0 ? 0 : job.size / files;
}

Refusal check_alignment(const Job& job) {
  if (!job.direct.value_or(false)) {
    return {};
  }
  for (const std::uint64_t bytes : block_sizes(job)) {
    if (bytes % kSectorMin != 0) {
      return fmt::format("bs={} with direct=1: direct I/O moves whole sectors of {} bytes or more",
                         write_bytes(bytes), kSectorMin);
    }
  }
  if (job.offset % kSectorMin != 0) {
    return fmt::format("offset={} with direct=1: direct I/O begins at whole sectors of {} bytes",
                       write_bytes(job.offset), kSectorMin);
  }
  return {};
}

Refusal check_extent(const Job& job) {
  const std::uint64_t block = smallest(block_sizes(job));
  if (job.size == 0) {
    if (job.direction.writes && job.filenames.empty()) {
      return "it writes files that it makes itself; say how large they are, such as size=1g";
    }
    return {};
  }
  if (file_bytes(job) < block) {
    return fmt::format("size={} is {} bytes for each of its files, less than one request (bs={})",
                       write_bytes(job.size), file_bytes(job), write_bytes(block));
  }
  if (job.offset >= file_bytes(job)) {
    return fmt::format("offset={} leaves nothing of files of {} bytes", write_bytes(job.offset),
                       file_bytes(job));
  }
  if (job.io_size && *job.io_size < block) {
    return fmt::format("io_size={} is less than one request (bs={})", write_bytes(*job.io_size),
                       write_bytes(block));
  }
  return {};
}

Refusal check_verify(const Job& job) {
  if (!job.verify) {
    return {};
  }
  if (job.engine == EngineKind::kNull) {
    return fmt::format("verify={} with ioengine=null, which moves nothing", job.verify_method);
  }
  return {};
}

Refusal check_peer(const Job& job) {
  if (job.peer == Peer::kNone) {
    return {};
  }
  if (job.simulated) {
    return "pair= with ioengine=sim: only we can run on a simulated drive";
  }
  if (job.workload == Workload::kReplay) {
    return "pair= with workload=replay: nobody else can run our traces";
  }
  return {};
}

Refusal check_raw(const Job& job) {
  if (!job.direction.reads && !job.direction.writes) {
    return "rw= says neither read nor write";
  }
  if (Refusal refusal = check_alignment(job)) {
    return refusal;
  }
  return check_extent(job);
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

Result<void> check_job(const Job& job, const std::string& place) {
  Refusal refusal = check_workload(job);
  if (!refusal && job.time_based && !job.runtime_ns) {
    refusal = "time_based without a runtime would never end; add one, such as runtime=30s";
  }
  if (!refusal) {
    refusal = check_verify(job);
  }
  if (!refusal) {
    refusal = check_peer(job);
  }
  if (!refusal) {
    return {};
  }
  return fault(Fault::kConfiguration,
               fmt::format("job \"{}\"{}: {}", excerpt(job.name), place, *refusal));
}

}  // namespace penstock::bench
