#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bench/job/job.h"
#include "bench/job/job_value.h"

namespace penstock::bench {

/// One key of a job: `key=value` in a job file, `--key=value` on the command line.
struct JobKey {
  std::string_view name;
  std::string_view alias;      ///< fio's other name of it
  std::string_view workloads;  ///< that it means something to: `swap, update`
  Refusal (*read)(std::string_view value, Job& job);
  bool stands_alone = false;  ///< without a value it is 1

  bool is_for(Workload workload) const;
};

/// Every key, in the order in which they are applied to a job (`name` and `workload` first);
/// docs/BENCH.md says what each means.
std::span<const JobKey> job_keys();
/// By name or alias; nullptr where there is none.
const JobKey* find_job_key(std::string_view name);

/// What is wrong with a name that find_job_key() does not know: the end of a sentence that begins
/// with the name, with the nearest key.
std::string unknown_job_key(std::string_view name);

/// `raw`, `swap`, `update`, `replay`.
std::string_view workload_name(Workload workload);

}  // namespace penstock::bench
