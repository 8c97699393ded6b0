#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/pair/pair_statistics.h"
#include "bench/pair/recorded_figures.h"

namespace penstock::bench {

enum class Verdict : std::uint8_t {
  kSame,     ///< within the bound
  kBetter,   ///< by more than the bound
  kUnclear,  ///< the medians are worse by more than the bound, but chance may have done it
  kWorse,    ///< by more than the bound
};
std::string_view verdict_name(Verdict verdict) noexcept;

/// One figure of one job, before and after.
struct ComparisonRow {
  std::string job;
  std::string figure;
  FigureUnit unit = FigureUnit::kBytesPerSecond;
  double before = 0;  ///< medians
  double after = 0;
  std::size_t runs_before = 0;
  std::size_t runs_after = 0;
  /// after / before - 1; of shares after - before.
  double change = 0;
  /// Where `change` lies with the confidence asked for; nothing where a side has one run only.
  std::optional<Interval> interval;
  Verdict verdict = Verdict::kSame;
};

struct ReportComparison {
  std::vector<ComparisonRow> rows;
  std::vector<std::string> missing;  ///< jobs and figures that only `before` has: sentences
  std::vector<std::string> added;    ///< jobs that only `after` has

  /// A row is worse, or something is missing.
  bool regressed() const noexcept;
};

/// Compares figure by figure. `max_regression` is a share: 0.05 for 5 %. With two or more runs (or
/// pairs) on each side a figure is worse, or better, only if the whole interval of its change lies
/// beyond the bound; with one run there is no interval, and the change alone decides. Pure.
ReportComparison compare_reports(const RecordedRuns& before, const RecordedRuns& after,
                                 double max_regression, const BootstrapOptions& options = {});

}  // namespace penstock::bench
