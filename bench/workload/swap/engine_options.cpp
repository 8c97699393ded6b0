#include "bench/workload/swap/engine_options.h"

#include <optional>
#include <utility>

namespace penstock::bench {

Result<SwapEngineOptions> engine_options(const Job& job) {
  SwapEngineOptions options;
  if (!job.config.empty()) {
    Result<Config> config = load_config(job.config);
    if (config.has_error()) {
      return std::move(config).error();
    }
    options.config = std::move(config).value();
  }
  PenstockConfig& ours = options.config.penstock;
  ours.mode = "scratch";
  ours.engine = job.engine.value_or(ours.engine);
  ours.integrity = job.integrity.value_or(ours.integrity);
  if (job.max_pinned) {
    ours.max_pinned_bytes = job.max_pinned;
    options.config.origins["penstock.max_pinned_bytes"] = "the job's max_pinned";
  }
  if (job.ram) {
    ours.ram_bytes = job.ram;
    options.config.origins["penstock.ram_bytes"] = "the job's ram";
  }
  options.lookahead_bytes = job.lookahead;
  options.io_depth = job.iodepth.value_or(options.io_depth);
  if (!job.read_blocks.empty()) {
    options.io_block_bytes = static_cast<std::uint32_t>(job.read_blocks.front().bytes);
  }
  return options;
}

std::vector<PathConfig> store_paths(const Job& job, const Config& config) {
  if (!job.directory.empty()) {
    return {{job.directory, std::nullopt, std::nullopt}};
  }
  std::vector<PathConfig> paths = config.paths();
  if (paths.empty()) {
    paths.push_back({".", std::nullopt, std::nullopt});
  }
  return paths;
}

}  // namespace penstock::bench
