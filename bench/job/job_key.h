#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "bench/job/job.h"
#include "bench/job/job_number.h"

namespace penstock::bench {

/// Kinds of workload that a key means something to.
class WorkloadSet {
 public:
  constexpr WorkloadSet(std::initializer_list<Workload> workloads) {
    for (const Workload workload : workloads) {
      bits_ |= 1U << static_cast<unsigned>(workload);
    }
  }
  constexpr bool contains(Workload workload) const {
    return (bits_ & 1U << static_cast<unsigned>(workload)) != 0;
  }

 private:
  unsigned bits_ = 0;
};

/// One key of a job: `key=value` in a job file, `--key=value` on the command line.
struct JobKey {
  std::string_view name;
  std::string_view alias;  ///< fio's other name of it
  WorkloadSet workloads;
  Refusal (*read)(std::string_view value, Job& job);
  bool stands_alone = false;  ///< without a value it is 1
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
/// Those of a set: `swap, update`.
std::string workload_names(const WorkloadSet& workloads);

}  // namespace penstock::bench
