#include "bench/pair/report_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "alloc/excerpt.h"

namespace penstock::bench {
namespace {

using nlohmann::json;
using Values = std::vector<double>;

constexpr FigureUnit kBandwidth{"bytes/s", true, false, 1e-6, 1, " MB/s"};
constexpr FigureUnit kCost{"ms/GB", false, false, 1, 2, " ms"};
constexpr FigureUnit kLatency{"ns", false, false, 1e-3, 0, " us"};
constexpr FigureUnit kStalls{"share", false, true, 100, 1, " %"};
constexpr FigureUnit kBandwidthRatio{"ratio", true, false, 1, 3, ""};
constexpr FigureUnit kCostRatio{"ratio", false, false, 1, 3, ""};

// To a peer, which not every run has.
bool is_ratio(const RecordedFigure& figure) {
  return figure.unit == &kBandwidthRatio || figure.unit == &kCostRatio;
}

json member(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() ? *found : json();
}

double number(const json& object, const char* key) {
  const json value = member(object, key);
  return value.is_number() ? value.get<double>() : 0;
}

// One job of one run, all its threads together.
struct JobRun {
  struct Direction {
    double bytes = 0;
    double bytes_per_second = 0;
    double p99_ns = 0;  // the worst thread's
  };
  std::map<std::string, Direction> directions;
  double cpu_ms = 0;
  double stall_ns = 0;
  double thread_ms = 0;  // run time of all threads
  bool swaps = false;
  std::string peer;
  Values ratios;
  Values cpu_ratios;

  void add_thread(const json& job);
};

// Every pair's ratio where the report has them, else the median alone.
void add_ratios(const json& pair, const char* all, const char* middle, Values& to) {
  const json ratios = member(pair, all);
  if (ratios.is_array() && !ratios.empty()) {
    for (const json& ratio : ratios) {
      to.push_back(ratio.is_number() ? ratio.get<double>() : 0);
    }
  } else {
    to.push_back(number(pair, middle));
  }
}

void JobRun::add_thread(const json& job) {
  double longest_ms = 0;
  for (const char* const name : {"read", "write"}) {
    const json part = member(job, name);
    Direction& direction = directions[name];
    direction.bytes += number(part, "io_bytes");
    direction.bytes_per_second += number(part, "bw_bytes");
    const json percentiles = member(member(part, "clat_ns"), "percentile");
    direction.p99_ns = std::max(direction.p99_ns, number(percentiles, "99.000000"));
    longest_ms = std::max(longest_ms, number(part, "runtime"));
  }
  const double whole_ms = number(job, "job_runtime");
  const double runtime_ms = whole_ms > 0 ? whole_ms : longest_ms;
  thread_ms += runtime_ms;
  cpu_ms += (number(job, "usr_cpu") + number(job, "sys_cpu")) / 100 * runtime_ms;
  if (const json swap = member(job, "swap"); swap.is_object()) {
    swaps = true;
    stall_ns += number(swap, "stall_ns");
  }
  if (const json pair = member(job, "pair"); pair.is_object()) {
    const json name = member(pair, "peer");
    peer = name.is_string() ? name.get<std::string>() : "the peer";
    add_ratios(pair, "ratios", "ratio_median", ratios);
    add_ratios(pair, "cpu_ratios", "cpu_ratio_median", cpu_ratios);
  }
}

// What is 0 was not measured; shares may be.
void add_values(RecordedRuns& runs, const std::string& job, const std::string& name,
                const FigureUnit& unit, bool drifts, const Values& values) {
  for (const double value : values) {
    if (value <= 0 && !(unit.is_share && value == 0)) {
      continue;
    }
    auto known = std::ranges::find_if(runs.figures, [&](const RecordedFigure& figure) {
      return figure.job == job && figure.name == name;
    });
    if (known == runs.figures.end()) {
      known = runs.figures.insert(known, RecordedFigure{job, name, &unit, drifts, {}});
    }
    known->values.push_back(value);
  }
}

void add_run(RecordedRuns& runs, const std::string& job, const JobRun& run) {
  if (std::ranges::find(runs.jobs, job) == runs.jobs.end()) {
    runs.jobs.push_back(job);
  }
  double bytes = 0;
  for (const auto& [name, direction] : run.directions) {
    bytes += direction.bytes;
    add_values(runs, job, name + " bandwidth", kBandwidth, true, {direction.bytes_per_second});
    add_values(runs, job, name + " p99", kLatency, false, {direction.p99_ns});
  }
  if (bytes > 0) {
    add_values(runs, job, "CPU per GB", kCost, true, {run.cpu_ms / bytes * 1e9});
  }
  if (run.swaps && run.thread_ms > 0) {
    add_values(runs, job, "stalls", kStalls, false, {run.stall_ns / 1e6 / run.thread_ms});
  }
  if (!run.peer.empty()) {
    const std::string over = fmt::format(" over {}'s", run.peer);
    add_values(runs, job, "bandwidth" + over, kBandwidthRatio, false, run.ratios);
    add_values(runs, job, "CPU per GB" + over, kCostRatio, false, run.cpu_ratios);
  }
}

Result<void> add_document(const json& document, const std::string& origin, RecordedRuns& runs) {
  const json jobs = member(document, "jobs");
  if (!jobs.is_array() || jobs.empty()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} is no report of a benchmark: it has no `jobs`", origin));
  }
  std::vector<std::pair<std::string, JobRun>> found;
  for (const json& job : jobs) {
    const json name = member(job, "jobname");
    if (!name.is_string()) {
      return fault(Fault::kInvalidArgument, fmt::format("{} has a job without `jobname`", origin));
    }
    if (const auto error = static_cast<int>(number(job, "error")); error != 0) {
      runs.failures.push_back(fmt::format("{} failed in {}: {}", excerpt(name.get<std::string>()),
                                          origin, std::strerror(error)));
      continue;
    }
    auto run =
        std::ranges::find(found, name.get<std::string>(), &std::pair<std::string, JobRun>::first);
    if (run == found.end()) {
      run = found.insert(run, {name.get<std::string>(), {}});
    }
    run->second.add_thread(job);
  }
  for (const auto& [name, run] : found) {
    add_run(runs, name, run);
  }
  return {};
}

const RecordedFigure* find_figure(const RecordedRuns& runs, const RecordedFigure& like) {
  const auto found = std::ranges::find_if(runs.figures, [&](const RecordedFigure& figure) {
    return figure.job == like.job && figure.name == like.name;
  });
  return found == runs.figures.end() ? nullptr : &*found;
}

bool has_job(const RecordedRuns& runs, const std::string& job) {
  return std::ranges::find(runs.jobs, job) != runs.jobs.end();
}

// Whether both have this job's ratios to the same peer, which do not drift.
bool has_ratios(const RecordedRuns& before, const RecordedRuns& after, const std::string& job) {
  return std::ranges::any_of(before.figures, [&](const RecordedFigure& figure) {
    return figure.job == job && figure.unit == &kBandwidthRatio &&
           find_figure(after, figure) != nullptr;
  });
}

// `least` and `most`: by how much it is worse, at the ends of its interval.
std::string_view judge(const ComparisonRow& row, double bound) {
  const Interval change = row.interval.value_or(Interval{row.change, row.change});
  const bool turned = row.unit->more_is_better;
  const double least = turned ? -change.high : change.low;
  const double most = turned ? -change.low : change.high;
  const double middle = turned ? -row.change : row.change;
  return least > bound ? "worse" : most < -bound ? "better" : middle > bound ? "unclear" : "same";
}

ComparisonRow compare_figure(const RecordedFigure& before, const RecordedFigure& after,
                             double bound) {
  ComparisonRow row{before.job,
                    before.name,
                    before.unit,
                    median(before.values),
                    median(after.values),
                    before.values.size(),
                    after.values.size(),
                    0,
                    {},
                    {}};
  const bool is_share = row.unit->is_share;
  row.change = is_share ? row.after - row.before : row.after / row.before - 1;
  if (row.runs_before > 1 && row.runs_after > 1) {
    row.interval = is_share ? median_difference_interval(after.values, before.values)
                            : median_ratio_interval(after.values, before.values);
    row.interval->low -= is_share ? 0 : 1;
    row.interval->high -= is_share ? 0 : 1;
  }
  row.verdict = judge(row, bound);
  return row;
}

}  // namespace

Result<RecordedRuns> read_recorded_runs(std::string_view text, const std::string& origin) {
  RecordedRuns runs;
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
    for (const json& one : document.is_array() ? document : json::array({document})) {
      PENSTOCK_TRY(add_document(one, origin, runs));
    }
  }
  if (!found) {
    return fault(Fault::kInvalidArgument, fmt::format("{} is empty", origin));
  }
  return runs;
}

bool ReportComparison::regressed() const noexcept {
  return !missing.empty() ||
         std::ranges::any_of(rows, [](const ComparisonRow& row) { return row.verdict == "worse"; });
}

ReportComparison compare_reports(const RecordedRuns& before, const RecordedRuns& after,
                                 double max_regression) {
  ReportComparison comparison;
  comparison.missing = after.failures;
  for (const std::string& job : before.jobs) {
    if (!has_job(after, job)) {
      comparison.missing.push_back(fmt::format("the job {} is not in the second report", job));
    }
  }
  std::ranges::copy_if(after.jobs, std::back_inserter(comparison.added),
                       [&](const std::string& job) { return !has_job(before, job); });
  for (const RecordedFigure& figure : before.figures) {
    if (!has_job(after, figure.job) || (figure.drifts && has_ratios(before, after, figure.job))) {
      continue;
    }
    if (const RecordedFigure* const other = find_figure(after, figure)) {
      comparison.rows.push_back(compare_figure(figure, *other, max_regression));
    } else if (!is_ratio(figure)) {
      comparison.missing.push_back(
          fmt::format("the second report has no {} of the job {}", figure.name, figure.job));
    }
  }
  return comparison;
}

}  // namespace penstock::bench
