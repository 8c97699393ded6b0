#include "bench/pair/deepspeed_handle_peer.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bench/pair/aio_settings.h"
#include "bench/pair/deepspeed_peer.h"
#include "bench/workload/file_set.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

std::uint64_t block_bytes(const Job& job) {
  const std::vector<BlockShare>& blocks = job.direction.writes ? job.write_blocks : job.read_blocks;
  return blocks.empty() ? kBlockBytes : blocks.front().bytes;
}

Result<void> check_handle_can(const Job& job) {
  const auto cannot = [&](const char* what) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("job {}: DeepSpeed's aio handle cannot {}", job.name, what));
  };
  if (job.direction.reads == job.direction.writes || job.direction.random) {
    return cannot("mix directions or go at random: rw=read or rw=write");
  }
  if (job.numjobs > 1) {
    return cannot("be shared by several jobs: numjobs=1");
  }
  if (job.read_blocks.size() > 1 || job.write_blocks.size() > 1) {
    return cannot("mix block sizes: one `bs`");
  }
  if (job.runtime_ns || job.fsync > 0 || job.end_fsync || job.thinktime_us > 0) {
    return cannot("stop by time, sync or pause: leave out runtime, fsync, end_fsync, thinktime");
  }
  if (!job.direct.value_or(false)) {
    return cannot("go through the page cache: direct=1");
  }
  return {};
}

std::vector<std::string> settings_for(const Job& job) {
  std::vector<std::string> settings;
  for (const AioSettings& candidate : aio_candidates(block_bytes(job), job.iodepth.value_or(1))) {
    settings.push_back(fmt::format("{{{}}}", candidate.members()));
  }
  return settings;
}

}  // namespace

Result<std::unique_ptr<PeerProgram>> make_deepspeed_handle_peer(const Job& job) {
  PENSTOCK_TRY(check_handle_can(job));
  const std::vector<std::string> files = file_paths(job, 0);
  std::error_code error;
  const std::uint64_t whole = std::filesystem::file_size(files.front(), error);
  if (error) {
    return system_error(error.value(), fmt::format("cannot look at {}", files.front()),
                        files.front());
  }
  const std::uint64_t region = align_down(
      job.size != 0 ? job.size / files.size() : whole - std::min(whole, job.offset), kBlockBytes);
  const json work{{"files", files},
                  {"offset", job.offset},
                  {"bytes", region},
                  {"direction", job.direction.writes ? "write" : "read"}};
  Result<DeepSpeedProcess> process =
      DeepSpeedProcess::start(DeepSpeedProcess::Script::kAioHandle, work.dump());
  if (process.has_error()) {
    return std::move(process).error();
  }
  return std::make_unique<DeepSpeedPeer>(
      DeepSpeedPeer::Parts{.what = "aio",
                           .settings = settings_for(job),
                           .io_size = job.io_size.value_or(region * files.size()),
                           .directory = {},
                           .process = std::move(process).value()});
}

}  // namespace penstock::bench
