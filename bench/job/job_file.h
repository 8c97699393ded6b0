#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "bench/job/ini_text.h"
#include "bench/job/job.h"
#include "bench/job/job_echo.h"  // IWYU pragma: export

namespace penstock::bench {

/// The jobs of files and of a command line, in their order. A key is `--bs=1m`, or `--stonewall`
/// where it needs no value. `--name=x` begins a job, as fio has it; keys before the first such hold
/// for all jobs: over what the files say, and before what the jobs of the command line say. Keys
/// without any file or name are one job, called after its workload. What is shared by several jobs,
/// there or in [global], reaches those to whose workload it means something. Options of the command
/// itself
/// (--output, --output-format, --eta) are the caller's and refused here.
/// Errors: Fault::kConfiguration with file, line, key, value and what is allowed, or a sentence
/// that names a job whose keys make no sense together; errno of files.
Result<std::vector<Job>> load_jobs(const std::vector<std::string>& files,
                                   const std::vector<std::string>& keys);

/// The jobs of one job file, whose name `origin` is (errors; what it includes is looked for beside
/// it).
Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& origin);
/// With `read` for whatever is included.
Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& origin,
                                    const TextReader& read);

}  // namespace penstock::bench
