#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/job/job.h"
#include "bench/measure/job_result.h"

namespace penstock::bench {

/// What was planned for jobs that swap the tensors of a model.
struct PlannedJobs {
  std::vector<std::string> names;
  std::string text;  ///< as `penstock plan` prints it, or why there is none
};

/// What every form of report is made of.
struct Report {
  std::vector<Job> jobs;
  /// As many as jobs: the keys that each was given, as `key=value`.
  std::vector<std::vector<std::string>> job_options;
  std::vector<JobResult> results;
  std::vector<PlannedJobs> plans;  ///< jobs of one plan together
  std::string version;             ///< penstock's
  std::string command;             ///< by which it can be repeated
  std::string directory;           ///< in which; empty: not known
  std::chrono::system_clock::time_point time;
};

/// The percentiles that the job asks for; fio's where it names none.
std::vector<double> percentiles_of(const Job& job);

/// Share of the time, in percent, that one thread of the job was computing; as fio's usr_cpu.
double cpu_percent(const JobResult& result, double seconds);
/// CPU of all threads for each 1e9 bytes moved; 0 where nothing was.
double cpu_ms_per_gb(const JobResult& result);

}  // namespace penstock::bench
