#include "bench/pair/report_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "alloc/excerpt.h"
#include "bindings/inventory/json_document.h"

namespace penstock::bench {
namespace {

using nlohmann::json;
using Values = std::vector<double>;
using enum FigureUnit::Kind;

constexpr FigureUnit kBandwidth{"bytes/s", kDrifts, true, 1e-6, 1, " MB/s"};
constexpr FigureUnit kCost{"ms/GB", kDrifts, false, 1, 2, " ms"};
constexpr FigureUnit kP99{"ns", kLatency, false, 1e-3, 0, " us"};
constexpr FigureUnit kStalls{"share", kShare, false, 100, 1, " %"};
constexpr FigureUnit kBandwidthRatio{"ratio", kRatio, true, 1, 3};
constexpr FigureUnit kCostRatio{"ratio", kRatio, false, 1, 3};

// 0 where there is none.
double number(const json& document, const std::string& pointer) {
  const json::json_pointer at(pointer);
  return document.contains(at) && document[at].is_number() ? document[at].get<double>() : 0;
}

// One job of one run, all its threads together: sums, but of p99 the worst thread's.
struct JobRun {
  std::string name;
  double group = 0;
  std::string label;  // jobs of one name that ran one after another: `read`, `read #2`
  std::map<std::string, double> bandwidth = {};  // of a direction
  std::map<std::string, double> p99_ns = {};
  double bytes = 0;
  double cpu_ms = 0;
  double stall_ns = 0;
  double thread_ms = 0;  // run time
  bool swaps = false;
  json pair = {};

  void add_thread(const json& job);
};

void JobRun::add_thread(const json& job) {
  double runtime_ms = 0;
  for (const std::string direction : {"read", "write"}) {
    bytes += number(job, "/" + direction + "/io_bytes");
    bandwidth[direction] += number(job, "/" + direction + "/bw_bytes");
    p99_ns[direction] =
        std::max(p99_ns[direction], number(job, "/" + direction + "/clat_ns/percentile/99.000000"));
    runtime_ms = std::max(runtime_ms, number(job, "/" + direction + "/runtime"));
  }
  const double whole_ms = number(job, "/job_runtime");
  runtime_ms = whole_ms > 0 ? whole_ms : runtime_ms;
  thread_ms += runtime_ms;
  cpu_ms += (number(job, "/usr_cpu") + number(job, "/sys_cpu")) / 100 * runtime_ms;
  swaps = swaps || job.contains("swap");
  stall_ns += number(job, "/swap/stall_ns");
  pair = job.value("pair", pair);
}

// Every pair's ratio where the report has them, else the median alone.
Values ratios_of(const json& pair, const char* all, const char* middle) {
  if (!pair.contains(all) || pair[all].empty()) {
    return {number(pair, fmt::format("/{}", middle))};
  }
  Values values;
  for (std::size_t at = 0; at < pair[all].size(); ++at) {
    values.push_back(number(pair, fmt::format("/{}/{}", all, at)));
  }
  return values;
}

// Of RecordedRuns, constant or not.
auto* find_figure(auto& runs, const std::string& job, const std::string& name) {
  const auto found = std::ranges::find_if(runs.figures, [&](const RecordedFigure& figure) {
    return figure.job == job && figure.name == name;
  });
  return found == runs.figures.end() ? nullptr : &*found;
}

void add_run(RecordedRuns& runs, const JobRun& run) {
  const std::string& job = run.label;
  // What is 0 was not measured; shares may be.
  const auto add = [&](const std::string& name, const FigureUnit& unit, const Values& values) {
    for (const double value : values) {
      if (value <= 0 && !(unit.kind == kShare && value == 0)) {
        continue;
      }
      if (find_figure(runs, job, name) == nullptr) {
        runs.figures.push_back({job, name, &unit, {}});
      }
      find_figure(runs, job, name)->values.push_back(value);
    }
  };
  if (std::ranges::find(runs.jobs, job) == runs.jobs.end()) {
    runs.jobs.push_back(job);
  }
  for (const auto& [direction, bandwidth] : run.bandwidth) {
    add(direction + " bandwidth", kBandwidth, {bandwidth});
    add(direction + " p99", kP99, {run.p99_ns.at(direction)});
  }
  if (run.bytes > 0) {
    add("CPU per GB", kCost, {run.cpu_ms / run.bytes * 1e9});
  }
  if (run.swaps && run.thread_ms > 0) {
    add("stalls", kStalls, {run.stall_ns / 1e6 / run.thread_ms});
  }
  if (run.pair.is_object()) {
    const std::string over = fmt::format(" over {}'s", run.pair.value("peer", "the peer"));
    add("bandwidth" + over, kBandwidthRatio, ratios_of(run.pair, "ratios", "ratio_median"));
    add("CPU per GB" + over, kCostRatio, ratios_of(run.pair, "cpu_ratios", "cpu_ratio_median"));
  }
}

// Throws json::exception where the document is none of a benchmark.
Result<void> add_document(const json& document, const std::string& origin, RecordedRuns& runs) {
  std::vector<JobRun> found;  // in their order
  for (const json& job : document.at("jobs")) {
    const std::string name = job.at("jobname");
    const double group = number(job, "/groupid");
    if (job.value("interrupted", false)) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("{} was interrupted in {}: take reports of whole runs",
                               excerpt(name), origin));
    }
    if (const auto error = static_cast<int>(number(job, "/error")); error != 0) {
      runs.failures.push_back(
          fmt::format("{} failed in {}: {}", excerpt(name), origin, std::strerror(error)));
      continue;
    }
    auto same = std::ranges::find_if(
        found, [&](const JobRun& one) { return one.name == name && one.group == group; });
    if (same == found.end()) {
      const auto before = std::ranges::count(found, name, &JobRun::name);
      same = found.insert(
          same, {name, group, before == 0 ? name : fmt::format("{} #{}", name, before + 1)});
    }
    same->add_thread(job);
  }
  for (const JobRun& one : found) {
    add_run(runs, one);
  }
  return {};
}

bool has_job(const RecordedRuns& runs, const std::string& job) {
  return std::ranges::find(runs.jobs, job) != runs.jobs.end();
}

// Whether both have this job's ratios to the same peer, which do not drift.
bool has_ratios(const RecordedRuns& before, const RecordedRuns& after, const std::string& job) {
  return std::ranges::any_of(before.figures, [&](const RecordedFigure& figure) {
    return figure.job == job && figure.unit == &kBandwidthRatio &&
           find_figure(after, job, figure.name) != nullptr;
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
  ComparisonRow row{
      before.job,           before.name,          before.unit,        median(before.values),
      median(after.values), before.values.size(), after.values.size()};
  const bool is_share = row.unit->kind == kShare;
  row.change = is_share ? row.after - row.before : row.after / row.before - 1;
  if (row.runs_before > 1 && row.runs_after > 1) {
    row.interval = is_share ? median_interval(after.values, before.values, std::minus{})
                            : median_interval(after.values, before.values, std::divides{});
    row.interval->low -= is_share ? 0 : 1;
    row.interval->high -= is_share ? 0 : 1;
  }
  row.verdict = judge(row, bound);
  return row;
}

}  // namespace

Result<RecordedRuns> read_recorded_runs(std::string_view text, const std::string& origin) {
  RecordedRuns runs;
  const auto add = [&](const json& document) -> Result<void> {
    if (!document.is_array()) {
      return add_document(document, origin, runs);
    }
    for (const json& one : document) {
      PENSTOCK_TRY(add_document(one, origin, runs));
    }
    return {};
  };
  try {
    PENSTOCK_TRY(parse_json_documents(text, origin, Fault::kInvalidArgument, add));
  } catch (const json::exception& error) {
    return fault(Fault::kInvalidArgument, fmt::format("{} is no report of a benchmark: {}", origin,
                                                      json_reason(error.what())));
  }
  if (runs.jobs.empty() && runs.failures.empty()) {
    return fault(Fault::kInvalidArgument, fmt::format("{} has no report of a job", origin));
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
    if (!has_job(after, figure.job) ||
        (figure.unit->kind == kDrifts && has_ratios(before, after, figure.job))) {
      continue;
    }
    if (const RecordedFigure* const other = find_figure(after, figure.job, figure.name)) {
      comparison.rows.push_back(compare_figure(figure, *other, max_regression));
    } else if (figure.unit->kind != kRatio) {
      comparison.missing.push_back(
          fmt::format("the second report has no {} of the job {}", figure.name, figure.job));
    }
  }
  return comparison;
}

}  // namespace penstock::bench
