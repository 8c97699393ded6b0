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

/// `--output-format=normal`: for people.
std::string text_report(const Report& report);
/// `--output-format=json`: fio's keys where they mean the same, then ours (docs/BENCH.md).
/// With `course` each job has its `courses`, what happened over time, as plot.py draws it.
std::string json_report(const Report& report, bool course = false);

}  // namespace penstock::bench
