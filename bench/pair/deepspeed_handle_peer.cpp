#include "bench/pair/deepspeed_handle_peer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bench/pair/aio_settings.h"
#include "bench/pair/deepspeed_peer.h"
#include "bench/workload/raw_file.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

Result<void> check_handle_can(const Job& job) {
  const auto cannot = [&](const char* what) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("job {}: DeepSpeed's aio handle cannot {}", job.name, what));
  };
  if (job.direction.reads == job.direction.writes) {
    return cannot("mix directions: rw=read or rw=write");
  }
  if (job.numjobs > 1) {
    return cannot("be shared by several jobs: numjobs=1");
  }
  if (job.runtime_ns || job.rate > 0) {
    return cannot("stop by time or keep to a rate: leave out runtime and rate");
  }
  if (!job.direct.value_or(false)) {
    return cannot("go through the page cache: direct=1");
  }
  return {};
}

std::vector<std::string> settings_for(const Job& job) {
  std::vector<std::string> settings;
  for (const AioSettings& candidate :
       aio_candidates(job.raw_block_bytes(), job.iodepth.value_or(1))) {
    settings.push_back(fmt::format("{{{}}}", candidate.members()));
  }
  return settings;
}

}  // namespace

Result<std::unique_ptr<PeerProgram>> make_deepspeed_handle_peer(const Job& job) {
  PENSTOCK_TRY(check_handle_can(job));
  const Result<std::uint64_t> bytes = file_bytes(job, 0);
  PENSTOCK_TRY(bytes);
  const std::uint64_t region = align_down(*bytes, kBlockBytes);
  const json work{{"files", {file_path(job, 0)}},
                  {"offset", 0},
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
                           .io_size = job.io_size.value_or(region),
                           .directory = {},
                           .process = std::move(process).value()});
}

}  // namespace penstock::bench
