#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/workload/swap/swap_device.h"
#include "bench/workload/swap/swap_inventory.h"
#include "bindings/deepspeed/config.h"
#include "swap/swap_engine.h"

namespace penstock::bench {

/// An engine on the device that a job asks for. The engine goes first.
struct SwapSession {
  std::unique_ptr<SwapDevice> device;
  std::unique_ptr<SwapEngine> engine;
  std::vector<PathConfig> paths;  ///< where its stores go
};

/// The configuration that a job names (all defaults without one) under the job's own keys: engine,
/// max_pinned, ram, integrity. What neither says is the plan's and the probe's.
Result<Config> job_config(const Job& job);

/// Where the stores of a job go under its configuration: `directory`, else the configuration's
/// paths, else the working directory.
std::vector<PathConfig> store_paths(const Job& job, const Config& config);

/// Under the job's configuration, with its bs, iodepth and lookahead; `stop` is the device's.
/// Errors: the configuration's, the device's and the engine's.
Result<SwapSession> open_swap_session(const Job& job, const std::atomic<bool>& stop);

/// What a job swaps in its phase: of `inventory=` `size=` bytes (or that share), as they are
/// trained under `config=`. Errors: those of the files.
Result<SwapInventory> job_inventory(const Job& job);

}  // namespace penstock::bench
