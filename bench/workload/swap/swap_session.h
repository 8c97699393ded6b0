#pragma once

#include <memory>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/workload/swap/swap_device.h"
#include "swap/swap_engine.h"

namespace penstock::bench {

/// An engine on the device that a job asks for. The engine goes first.
struct SwapSession {
  std::unique_ptr<SwapDevice> device;
  std::unique_ptr<SwapEngine> engine;
  std::vector<PathConfig> paths;  ///< where its stores go
};

/// Errors: the configuration's, the device's and the engine's.
Result<SwapSession> open_swap_session(const Job& job);

}  // namespace penstock::bench
