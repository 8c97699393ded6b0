#include "bench/workload/swap/swap_session.h"

#include <utility>

#include "bench/workload/swap/engine_options.h"

namespace penstock::bench {

Result<SwapSession> open_swap_session(const Job& job) {
  const Result<Config> config = job_config(job);
  if (config.has_error()) {
    return config.error();
  }
  SwapEngineOptions options = engine_options(job, *config);
  SwapSession session;
  session.paths = store_paths(job, *config);
  Result<std::unique_ptr<SwapDevice>> device = make_swap_device(job.simulated);
  if (device.has_error()) {
    return std::move(device).error();
  }
  session.device = std::move(device).value();
  session.device->furnish(options);
  Result<std::unique_ptr<SwapEngine>> engine = SwapEngine::open(std::move(options));
  if (engine.has_error()) {
    return std::move(engine).error();
  }
  session.engine = std::move(engine).value();
  return session;
}

}  // namespace penstock::bench
