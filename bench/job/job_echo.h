#pragma once

#include <string>
#include <vector>

#include "bench/job/job.h"

namespace penstock::bench {

/// Every key of the job's workload as it is understood, as a section of a job file: `[name]`, one
/// `key=value` a line, and a comment for each key that was not given and has no value of its own.
/// parse_jobs() reads the same job from it.
std::string describe_job(const Job& job);

/// What of a job differs from a job without keys, as arguments: `--name=x`, `--bs=1m`… load_jobs()
/// makes the same job of them.
std::vector<std::string> command_keys(const Job& job);
/// A command that can be pasted into a shell, as fio's `--showcmd` prints it.
std::string command_line(const Job& job);

}  // namespace penstock::bench
