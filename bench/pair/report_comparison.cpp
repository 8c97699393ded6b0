#include "bench/pair/report_comparison.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::bench {
namespace {

bool more_is_better(FigureUnit unit) {
  return unit == FigureUnit::kBytesPerSecond || unit == FigureUnit::kBandwidthRatio;
}

// To a peer, which not every run has.
bool is_ratio(FigureUnit unit) {
  return unit == FigureUnit::kBandwidthRatio || unit == FigureUnit::kCpuRatio;
}

const RecordedFigure* find_figure(const RecordedRuns& runs, const RecordedFigure& like) {
  const auto found = std::ranges::find_if(runs.figures, [&](const RecordedFigure& figure) {
    return figure.job == like.job && figure.name == like.name;
  });
  return found == runs.figures.end() ? nullptr : &*found;
}

// Whether both have this job's ratios to the same peer, which do not drift.
bool has_ratios(const RecordedRuns& before, const RecordedRuns& after, const std::string& job) {
  return std::ranges::any_of(before.figures, [&](const RecordedFigure& figure) {
    return figure.job == job && figure.unit == FigureUnit::kBandwidthRatio &&
           find_figure(after, figure) != nullptr;
  });
}

bool has_job(const RecordedRuns& runs, const std::string& job) {
  return std::ranges::find(runs.jobs, job) != runs.jobs.end();
}

Interval change_interval(const RecordedFigure& before, const RecordedFigure& after,
                         const BootstrapOptions& options) {
  if (before.unit == FigureUnit::kShare) {
    return median_difference_interval(after.values, before.values, options);
  }
  const Interval ratio = median_ratio_interval(after.values, before.values, options);
  return {ratio.low - 1, ratio.high - 1};
}

// `least` and `most`: by how much it is worse, at the ends of its interval.
Verdict judge(const ComparisonRow& row, double bound) {
  const Interval change = row.interval.value_or(Interval{row.change, row.change});
  const bool turned = more_is_better(row.unit);
  const double least = turned ? -change.high : change.low;
  const double most = turned ? -change.low : change.high;
  const double middle = turned ? -row.change : row.change;
  if (least > bound) {
    return Verdict::kWorse;
  }
  if (most < -bound) {
    return Verdict::kBetter;
  }
  return middle > bound ? Verdict::kUnclear : Verdict::kSame;
}

ComparisonRow compare_figure(const RecordedFigure& before, const RecordedFigure& after,
                             double bound, const BootstrapOptions& options) {
  ComparisonRow row;
  row.job = before.job;
  row.figure = before.name;
  row.unit = before.unit;
  row.before = median(before.values);
  row.after = median(after.values);
  row.runs_before = before.values.size();
  row.runs_after = after.values.size();
  row.change = row.unit == FigureUnit::kShare ? row.after - row.before : row.after / row.before - 1;
  if (row.runs_before > 1 && row.runs_after > 1) {
    row.interval = change_interval(before, after, options);
  }
  row.verdict = judge(row, bound);
  return row;
}

}  // namespace

std::string_view verdict_name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kBetter:
      return "better";
    case Verdict::kUnclear:
      return "unclear";
    case Verdict::kWorse:
      return "worse";
  }
  return "";
}

bool ReportComparison::regressed() const noexcept {
  return !missing.empty() || std::ranges::any_of(rows, [](const ComparisonRow& row) {
    return row.verdict == Verdict::kWorse;
  });
}

ReportComparison compare_reports(const RecordedRuns& before, const RecordedRuns& after,
                                 double max_regression, const BootstrapOptions& options) {
  ReportComparison comparison;
  comparison.missing = after.failures;
  for (const std::string& job : before.jobs) {
    if (!has_job(after, job)) {
      comparison.missing.push_back(fmt::format("the job {} is not in the second report", job));
    }
  }
  for (const std::string& job : after.jobs) {
    if (!has_job(before, job)) {
      comparison.added.push_back(job);
    }
  }
  for (const RecordedFigure& figure : before.figures) {
    if (!has_job(after, figure.job) || (figure.drifts && has_ratios(before, after, figure.job))) {
      continue;
    }
    if (const RecordedFigure* const other = find_figure(after, figure)) {
      comparison.rows.push_back(compare_figure(figure, *other, max_regression, options));
    } else if (!is_ratio(figure.unit)) {
      comparison.missing.push_back(
          fmt::format("the second report has no {} of the job {}", figure.name, figure.job));
    }
  }
  return comparison;
}

}  // namespace penstock::bench
