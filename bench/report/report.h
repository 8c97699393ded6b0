#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/job/job.h"
#include "bench/measure/job_result.h"

namespace penstock::bench {

/// What every form of report is made of.
struct Report {
  std::vector<Job> jobs;
  std::vector<JobResult> results;
  std::string version;  ///< penstock's
  std::string command;  ///< by which it can be repeated
  std::chrono::system_clock::time_point time;
};

/// Share of the time, in percent, that one thread of the job was computing; as fio's usr_cpu.
double cpu_percent(const JobResult& result, double seconds);
/// CPU of all threads for each 1e9 bytes moved; 0 where nothing was.
double cpu_ms_per_gb(const JobResult& result);

}  // namespace penstock::bench
