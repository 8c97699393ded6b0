#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "bench/pair/pair_statistics.h"

namespace penstock::bench {

/// How a figure is written and compared.
struct FigureUnit {
  enum class Kind : std::uint8_t {
    kDrifts,   ///< with the drive: where both reports have kRatio to the same peer, that counts
    kRatio,    ///< to a peer, which not every run has
    kShare,    ///< of the run time, 0..1; compared by difference
    kLatency,  ///< of requests
  };
  std::string_view name;  ///< in JSON
  Kind kind = Kind::kDrifts;
  bool more_is_better = false;
  double shown_as = 1;  ///< factor to the unit that people read
  int decimals = 0;
  std::string_view suffix = {};
};

/// One figure of one job in every run of a report.
struct RecordedFigure {
  std::string job;
  std::string name;  ///< `read bandwidth`, `CPU per GB over fio's`
  const FigureUnit* unit = nullptr;
  std::vector<double> values;  ///< one a run, or one a pair; positive unless a share
};

/// What a file of reports has.
struct RecordedRuns {
  std::vector<std::string> jobs;  ///< in the order of the first report
  std::vector<RecordedFigure> figures;
  std::vector<std::string> failures;  ///< a sentence for each job that ended with an error
};

/// Reads reports of `penstock bench --output-format=json` (or of fio): one document, an array of
/// them, or several one after another, as `>>` leaves them: each is a run. Jobs of one name and
/// group are threads of one job. Errors: no JSON, none of that shape, or a job that was
/// interrupted, with `origin`.
Result<RecordedRuns> read_recorded_runs(std::string_view text, const std::string& origin);

/// One figure of one job, before and after.
struct ComparisonRow {
  std::string job;
  std::string figure;
  const FigureUnit* unit = nullptr;
  double before = 0;  ///< medians
  double after = 0;
  std::size_t runs_before = 0;
  std::size_t runs_after = 0;
  double change = 0;  ///< after / before - 1; of shares after - before
  /// Where `change` lies with 95 % confidence; nothing where a side has one run only.
  std::optional<Interval> interval = {};
  /// `same` (within the bound), `better`, `worse`, or `unclear`: the medians are worse by more than
  /// the bound, but chance may have done it.
  std::string_view verdict = {};
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
                                 double max_regression);

}  // namespace penstock::bench
