#include "bench/workload/swap/swap_session.h"

#include <utility>

#include "bench/workload/swap/engine_options.h"

namespace penstock::bench {

Result<SwapSession> open_swap_session(const Job& job) {
  Result<SwapEngineOptions> options = engine_options(job);
  if (options.has_error()) {
    return std::move(options).error();
  }
  options->ranks_on_node = job.numjobs;
  SwapSession session;
  session.paths = store_paths(job, options->config);
  Result<std::unique_ptr<SwapDevice>> device = make_swap_device(job.simulated);
  if (device.has_error()) {
    return std::move(device).error();
  }
  session.device = std::move(device).value();
  session.device->furnish(*options);
  Result<std::unique_ptr<SwapEngine>> engine = SwapEngine::open(std::move(*options));
  if (engine.has_error()) {
    return std::move(engine).error();
  }
  session.engine = std::move(engine).value();
  return session;
}

}  // namespace penstock::bench
