#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/pair/measured_run.h"

namespace penstock::bench {

/// Another program that can do a job's work. Used by one thread.
struct PeerProgram {
  std::string name;
  std::vector<std::string> settings;  ///< worth a trial, at least one, as a user would write them
  /// Does the work once under one of them. Blocks. `io_size`: instead of the job's; 0: the job's.
  std::function<Result<MeasuredRun>(std::size_t settings, std::uint64_t io_size)> run;
};

}  // namespace penstock::bench
