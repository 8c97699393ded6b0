#pragma once

#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "swap/swap_engine.h"

namespace penstock::bench {

/// What a job that swaps says of its engine: the configuration that it names (all defaults without
/// one), its own keys over it (engine, bs, iodepth, max_pinned, ram, integrity, lookahead). What
/// neither says is the plan's and the probe's. Errors: the configuration's.
Result<SwapEngineOptions> engine_options(const Job& job);

/// Where its stores go: `directory`, else the configuration's paths, else the working directory.
std::vector<PathConfig> store_paths(const Job& job, const Config& config);

}  // namespace penstock::bench
