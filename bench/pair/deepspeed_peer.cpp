#include "bench/pair/deepspeed_peer.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bench/pair/deepspeed_process.h"
#include "bench/pair/handle_settings.h"
#include "bench/workload/file_set.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

std::uint64_t block_bytes(const Job& job) {
  const std::vector<BlockShare>& blocks = job.direction.writes ? job.write_blocks : job.read_blocks;
  return blocks.empty() ? kBlockBytes : blocks.front().bytes;
}

Result<void> check(const Job& job) {
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

class DeepSpeedPeer final : public PeerProgram {
 public:
  DeepSpeedPeer(const Job& job, std::uint64_t file_bytes, DeepSpeedProcess process)
      : io_size_(job.io_size.value_or(file_bytes)),
        candidates_(handle_candidates(block_bytes(job), job.iodepth.value_or(1))),
        process_(std::move(process)) {}

  std::string_view name() const noexcept override { return "deepspeed"; }
  std::size_t candidates() const noexcept override { return candidates_.size(); }
  std::string describe(std::size_t candidate) const override {
    return "aio " + candidates_[candidate].json(false);
  }
  Result<Leg> run(std::size_t candidate, std::uint64_t io_size) override {
    return process_.run_leg(fmt::format(R"({{"settings": {}, "io_size": {}}})",
                                        candidates_[candidate].json(false),
                                        io_size != 0 ? io_size : io_size_));
  }

 private:
  std::uint64_t io_size_;
  std::vector<HandleSettings> candidates_;
  DeepSpeedProcess process_;
};

}  // namespace

Result<std::unique_ptr<PeerProgram>> make_deepspeed_peer(const Job& job) {
  PENSTOCK_TRY(check(job));
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
  return std::make_unique<DeepSpeedPeer>(job, region * files.size(), std::move(process).value());
}

}  // namespace penstock::bench
