#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"

namespace penstock::bench {

/// The jobs of files and of a command line, in their order. A key is `--bs=1m`, or `--stonewall`
/// where it needs no value. `--name=x` begins a job, as fio has it; keys before the first such hold
/// for all jobs: over what the files say, and before what the jobs of the command line say. Keys
/// without any file or name are one job, called after its workload. What several jobs share, there
/// or in [global], reaches those to whose workload it means something.
/// Errors: Fault::kConfiguration with file, line, key, value and what is allowed, or a sentence
/// that names a job whose keys make no sense together; errno of files.
Result<std::vector<Job>> load_jobs(const std::vector<std::string>& files,
                                   const std::vector<std::string>& keys);

/// The jobs of one job file, whose name `origin` is in errors.
Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& origin);

}  // namespace penstock::bench
