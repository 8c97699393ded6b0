#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"

namespace penstock::bench {

/// What a figure counts, and so how two of them are compared.
enum class FigureUnit : std::uint8_t {
  kBytesPerSecond,  ///< more is better, as of all ratios of bandwidth; all others: less is better
  kCpuMsPerGb,
  kNanoseconds,
  kShare,           ///< of the run time, 0..1; compared by difference
  kBandwidthRatio,  ///< over a peer's
  kCpuRatio,
};

/// One figure of one job in every run of a report.
struct RecordedFigure {
  std::string job;
  std::string name;  ///< `read bandwidth`, `CPU per GB over fio's`
  FigureUnit unit = FigureUnit::kBytesPerSecond;
  /// Bandwidth and cost as such, which a drive's drift moves: where both reports have the ratio to
  /// the same peer, that is what counts.
  bool drifts = false;
  std::vector<double> values;  ///< one a run, or one a pair; positive unless a share
};

/// What a file of reports tells.
struct RecordedRuns {
  std::vector<std::string> jobs;  ///< in the order of the first report
  std::vector<RecordedFigure> figures;
  std::vector<std::string> failures;  ///< a sentence for each job that ended with an error
};

/// Reads reports of `penstock bench --output-format=json` (or of fio): one document, an array of
/// them, or several one after another, as `>>` leaves them: each is a run. Jobs of one name in one
/// document are its threads, and are taken together. Errors: no JSON, or none of that shape, with
/// `origin`.
Result<RecordedRuns> read_recorded_runs(std::string_view text, const std::string& origin);

}  // namespace penstock::bench
