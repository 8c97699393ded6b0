#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/pair/pair_statistics.h"
#include "bench/tune/drive_mix.h"
#include "io/engine_probe.h"

namespace penstock::bench {

/// What one directory's drive does by itself under our engine, in bytes per second.
struct PathSpeed {
  std::string path;
  double read = 0;
  double write = 0;
  double mixed = 0;  ///< at the step's shares
};

/// Shown after each trial.
struct TuningProgress {
  std::string doing;                ///< `laying out files`, `/nvme0`
  double bytes_per_second = 0;      ///< of the latest trial; 0: none yet
  std::chrono::nanoseconds left{};  ///< at most
};

struct TuningRequest {
  EngineKind engine = EngineKind::kAuto;
  DriveMix mix;
  std::uint64_t file_bytes = 0;    ///< of the file on each path; a request or more
  std::vector<std::string> paths;  ///< directories, at least one, each once
  std::chrono::nanoseconds budget = std::chrono::seconds(60);
  std::function<void(const TuningProgress&)> progress = {};
  /// Asked some times a second, on this thread or another; true: it ends soon.
  std::function<bool()> interrupted = {};
};

/// How much faster all paths are than the fastest alone, both run in turns.
struct Advantage {
  double ratio = 1;              ///< of bandwidths, the median of the turns
  Interval confidence = {1, 1};  ///< where it lies with 95 % confidence
  std::size_t turns = 0;
  double after = 0;  ///< bytes per second, median

  /// Faster beyond the noise: by 3 % at the median of three turns or more, and the whole interval
  /// above 1.
  bool is_real() const noexcept;
};

/// What was measured and is better. Without figures, where it was interrupted before any.
struct DriveTuning {
  std::vector<PathSpeed> paths;  ///< as given; the speeds are 0 where they were not measured
  /// Which of them to use, fastest first: several only if together they are faster than the first
  /// one beyond the noise.
  std::vector<std::size_t> used;
  std::optional<Advantage> together;  ///< all of them over the fastest
  std::size_t trials = 0;
  std::chrono::nanoseconds trial_length{};
  bool interrupted = false;

  bool measured() const noexcept { return !paths.empty() && paths.front().mixed > 0; }
  /// Of everything that is used, at the step's shares; 0 where nothing was measured.
  double used_bytes_per_second() const noexcept;
};

/// So little suffices for no answer at all.
inline constexpr std::chrono::seconds kTuningBudgetMin{5};

/// Lays out a file a path, and measures each path and all together by raw jobs under our engine.
/// Takes about `budget` at most. The files have no names, so that none is left. Errors: errno and
/// path of a directory that is missing, not writable, full or without direct I/O, and those of the
/// first trials; never that it was interrupted.
Result<DriveTuning> tune_drives(const TuningRequest& request);

}  // namespace penstock::bench
