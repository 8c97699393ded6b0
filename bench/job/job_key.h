#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bench/job/job.h"
#include "bench/job/refusal.h"

namespace penstock::bench {

/// Kinds of workload that a key means something to.
class WorkloadSet {
 public:
  constexpr WorkloadSet(std::initializer_list<Workload> workloads) {
    for (const Workload workload : workloads) {
      bits_ = static_cast<std::uint8_t>(bits_ | bit(workload));
    }
  }
  constexpr bool contains(Workload workload) const { return (bits_ & bit(workload)) != 0; }

 private:
  static constexpr std::uint8_t bit(Workload workload) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(workload));
  }
  std::uint8_t bits_ = 0;
};

/// One key of a job: `key=value` in a job file, `--key=value` on the command line.
struct JobKey {
  std::string_view name;
  std::string_view aliases;   ///< fio's other names of it, with a blank between them
  std::string_view help;      ///< one line: what it says
  std::string_view fallback;  ///< in words: what holds where it is not given
  WorkloadSet workloads;
  bool stands_alone = false;  ///< without a value it is 1
  Refusal (*read)(std::string_view value, Job& job);
  /// The value of a job as read() takes it; nothing where the job says none.
  std::optional<std::string> (*write)(const Job& job);
};

/// Every key, in the order in which they are applied to a job (`name` and `workload` first,
/// `bssplit` after `bs`, which it overrides) and listed.
std::span<const JobKey> job_keys();
/// By name or alias; nullptr where there is none.
const JobKey* find_job_key(std::string_view name);

/// What is wrong with a name that find_job_key() does not know: the end of a sentence that begins
/// with the name. Tells fio's keys that we do not have, and what is an option of the command, from
/// misspellings, and names the nearest key.
std::string unknown_job_key(std::string_view name);

/// Whether a name that is no key of a job is likely to be meant as one: a key of fio's, an option
/// of the command, a slip of the pen.
bool resembles_job_key(std::string_view name);

/// `raw`, `swap`, `update`, `replay`.
std::string_view workload_name(Workload workload);

}  // namespace penstock::bench
