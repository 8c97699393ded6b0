#include "bench/pair/recorded_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "alloc/excerpt.h"
#include "bench/pair/json_number.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

json member(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() ? *found : json();
}

// One job of one run, all its threads together.
struct JobRun {
  struct Direction {
    double bytes = 0;
    double bytes_per_second = 0;
    double runtime_ms = 0;  // the longest thread's
    double p99_ns = 0;      // the worst thread's
  };
  std::string name;
  Direction read;
  Direction write;
  double cpu_ms = 0;
  double stall_ns = 0;
  double thread_ms = 0;  // run time of all threads
  bool swaps = false;
  std::string peer;
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;
};

void add_direction(const json& part, JobRun::Direction& direction) {
  direction.bytes += json_number(part, "io_bytes");
  direction.bytes_per_second += json_number(part, "bw_bytes");
  direction.runtime_ms = std::max(direction.runtime_ms, json_number(part, "runtime"));
  const json percentiles = member(member(part, "clat_ns"), "percentile");
  direction.p99_ns = std::max(direction.p99_ns, json_number(percentiles, "99.000000"));
}

// Every pair's ratio where the report has them, else the median alone.
void add_ratios(const json& pair, const char* all, const char* middle, std::vector<double>& to) {
  const json ratios = member(pair, all);
  if (ratios.is_array() && !ratios.empty()) {
    for (const json& ratio : ratios) {
      to.push_back(ratio.is_number() ? ratio.get<double>() : 0);
    }
  } else {
    to.push_back(json_number(pair, middle));
  }
}

void add_thread(const json& job, JobRun& run) {
  add_direction(member(job, "read"), run.read);
  add_direction(member(job, "write"), run.write);
  const double told_ms = json_number(job, "job_runtime");
  const double runtime_ms = told_ms > 0 ? told_ms
                                        : std::max(json_number(member(job, "read"), "runtime"),
                                                   json_number(member(job, "write"), "runtime"));
  run.thread_ms += runtime_ms;
  run.cpu_ms += (json_number(job, "usr_cpu") + json_number(job, "sys_cpu")) / 100 * runtime_ms;
  if (const json swap = member(job, "swap"); swap.is_object()) {
    run.swaps = true;
    run.stall_ns += json_number(swap, "stall_ns");
  }
  if (const json pair = member(job, "pair"); pair.is_object()) {
    const json peer = member(pair, "peer");
    run.peer = peer.is_string() ? peer.get<std::string>() : "the peer";
    add_ratios(pair, "ratios", "ratio_median", run.ratios);
    add_ratios(pair, "cpu_ratios", "cpu_ratio_median", run.cpu_ratios);
  }
}

// Collects figures of run after run.
class Collector {
 public:
  void add(const JobRun& run) {
    if (std::ranges::find(runs_.jobs, run.name) == runs_.jobs.end()) {
      runs_.jobs.push_back(run.name);
    }
    add_direction(run, "read", run.read);
    add_direction(run, "write", run.write);
    const double gigabytes = (run.read.bytes + run.write.bytes) / 1e9;
    if (gigabytes > 0) {
      add_values(run, "CPU per GB", FigureUnit::kCpuMsPerGb, true, {run.cpu_ms / gigabytes});
    }
    if (run.swaps && run.thread_ms > 0) {
      add_values(run, "stalls", FigureUnit::kShare, false, {run.stall_ns / 1e6 / run.thread_ms});
    }
    if (!run.peer.empty()) {
      add_values(run, fmt::format("bandwidth over {}'s", run.peer), FigureUnit::kBandwidthRatio,
                 false, run.ratios);
      add_values(run, fmt::format("CPU per GB over {}'s", run.peer), FigureUnit::kCpuRatio, false,
                 run.cpu_ratios);
    }
  }
  void add_failure(std::string sentence) { runs_.failures.push_back(std::move(sentence)); }
  RecordedRuns take() { return std::move(runs_); }

 private:
  void add_direction(const JobRun& run, const char* name, const JobRun::Direction& direction) {
    add_values(run, fmt::format("{} bandwidth", name), FigureUnit::kBytesPerSecond, true,
               {direction.bytes_per_second});
    add_values(run, fmt::format("{} p99", name), FigureUnit::kNanoseconds, false,
               {direction.p99_ns});
  }
  // What is 0 was not measured; shares may be.
  void add_values(const JobRun& run, const std::string& name, FigureUnit unit, bool drifts,
                  const std::vector<double>& values) {
    for (const double value : values) {
      if (value > 0 || (unit == FigureUnit::kShare && value == 0)) {
        figure(run.name, name, unit, drifts).values.push_back(value);
      }
    }
  }
  RecordedFigure& figure(const std::string& job, const std::string& name, FigureUnit unit,
                         bool drifts) {
    for (RecordedFigure& known : runs_.figures) {
      if (known.job == job && known.name == name) {
        return known;
      }
    }
    return runs_.figures.emplace_back(RecordedFigure{job, name, unit, drifts, {}});
  }

  RecordedRuns runs_;
};

Result<void> add_document(const json& document, const std::string& origin, Collector& collector) {
  const json jobs = member(document, "jobs");
  if (!jobs.is_array() || jobs.empty()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} is no report of a benchmark: it has no `jobs`", origin));
  }
  std::vector<JobRun> runs;
  for (const json& job : jobs) {
    const json name = member(job, "jobname");
    if (!name.is_string()) {
      return fault(Fault::kInvalidArgument, fmt::format("{} has a job without `jobname`", origin));
    }
    if (const auto error = static_cast<int>(json_number(job, "error")); error != 0) {
      collector.add_failure(fmt::format("{} failed in {}: {}", excerpt(name.get<std::string>()),
                                        origin, std::strerror(error)));
      continue;
    }
    auto run = std::ranges::find(runs, name.get<std::string>(), &JobRun::name);
    if (run == runs.end()) {
      runs.emplace_back().name = name.get<std::string>();
      run = runs.end() - 1;
    }
    add_thread(job, *run);
  }
  for (const JobRun& run : runs) {
    collector.add(run);
  }
  return {};
}

}  // namespace

Result<RecordedRuns> read_recorded_runs(std::string_view text, const std::string& origin) {
  Collector collector;
  std::istringstream rest{std::string(text)};
  bool found = false;
  while (!(rest >> std::ws).eof()) {
    json document;
    try {
      rest >> document;
    } catch (const json::exception& error) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("{} is no JSON: {}", origin, excerpt(error.what())));
    }
    found = true;
    if (!document.is_array()) {
      PENSTOCK_TRY(add_document(document, origin, collector));
      continue;
    }
    for (const json& one : document) {
      PENSTOCK_TRY(add_document(one, origin, collector));
    }
  }
  if (!found) {
    return fault(Fault::kInvalidArgument, fmt::format("{} is empty", origin));
  }
  return collector.take();
}

}  // namespace penstock::bench
