#pragma once

#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bindings/deepspeed/config.h"
#include "swap/swap_engine.h"

namespace penstock::bench {

/// The configuration that a job names (all defaults without one) under the job's own keys: engine,
/// max_pinned, ram, integrity. What neither says is the plan's and the probe's.
Result<Config> job_config(const Job& job);

/// An engine for a job under its job_config(), with its bs, iodepth and lookahead.
SwapEngineOptions engine_options(const Job& job, const Config& config);

/// Where its stores go: `directory`, else the configuration's paths, else the working directory.
std::vector<PathConfig> store_paths(const Job& job, const Config& config);

}  // namespace penstock::bench
