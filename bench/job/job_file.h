#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"

namespace penstock::bench {

/// The jobs of files and of a command line (`--bs=1m`, `--stonewall`), in their order, as
/// docs/BENCH.md says. Errors: Fault::kConfiguration with file, line, key, value and what is
/// allowed, or a sentence that names a job whose keys make no sense together; errno of files.
Result<std::vector<Job>> load_jobs(const std::vector<std::string>& files,
                                   const std::vector<std::string>& keys);

/// The jobs of one job file, whose name `origin` is in errors.
Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& origin);

}  // namespace penstock::bench
