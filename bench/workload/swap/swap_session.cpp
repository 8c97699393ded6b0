#include "bench/workload/swap/swap_session.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/inventory/inventory_file.h"

namespace penstock::bench {
namespace {

SwapEngineOptions engine_options(const Job& job, const Config& config) {
  SwapEngineOptions options;
  options.config = config.engine_config();
  options.ranks_on_node = job.numjobs;
  options.lookahead_bytes = job.lookahead;
  options.io.depth = job.iodepth.value_or(options.io.depth);
  if (job.block_bytes) {
    options.io.block_bytes = static_cast<std::uint32_t>(*job.block_bytes);
  }
  return options;
}

}  // namespace

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

Result<Config> job_config(const Job& job) {
  Result<Config> config = job.config.empty() ? Config() : load_config(job.config);
  if (config.has_error()) {
    return config;
  }
  EngineConfig& ours = config->penstock;
  ours.mode = StoreMode::kScratch;
  ours.engine = job.engine.value_or(ours.engine);
  ours.integrity = job.integrity.value_or(ours.integrity);
  if (job.max_pinned) {
    ours.max_pinned_bytes = job.max_pinned;
    config->origins["penstock.max_pinned_bytes"] = "the job's max_pinned";
  }
  if (job.ram) {
    ours.ram_bytes = job.ram;
    config->origins["penstock.ram_bytes"] = "the job's ram";
  }
  return config;
}

Result<SwapSession> open_swap_session(const Job& job, const std::atomic<bool>& stop) {
  const Result<Config> config = job_config(job);
  PENSTOCK_TRY(config);
  SwapEngineOptions options = engine_options(job, *config);
  SwapSession session;
  session.paths = store_paths(job, *config);
  Result<std::unique_ptr<SwapDevice>> device = make_swap_device(job.simulated, stop);
  PENSTOCK_TRY(device);
  session.device = std::move(device).value();
  session.device->furnish(options);
  Result<std::unique_ptr<SwapEngine>> engine = SwapEngine::open(std::move(options));
  PENSTOCK_TRY(engine);
  session.engine = std::move(engine).value();
  return session;
}

Result<SwapInventory> job_inventory(const Job& job) {
  Result<Inventory> inventory = load_inventory(job.inventory);
  PENSTOCK_TRY(inventory);
  Result<Config> config = job_config(job);
  PENSTOCK_TRY(config);
  TrainingSetup setup;
  const double share = static_cast<double>(inventory->bytes()) * job.size_percent / 100;
  const std::uint64_t bytes =  // 0 stands for all, which a small share is not
      job.size_percent != 0 ? std::max<std::uint64_t>(static_cast<std::uint64_t>(share), 1)
                            : job.size;
  setup.inventory = bytes == 0 ? std::move(*inventory) : inventory_subset(*inventory, bytes);
  setup.has_config = config->deepspeed.is_given;
  setup.config = *std::move(config);
  return swap_inventory(setup, job.phase);
}

}  // namespace penstock::bench
