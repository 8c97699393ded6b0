#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/tune/advantage.h"
#include "bench/tune/drive_mix.h"
#include "bench/tune/drive_trial.h"

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
  std::vector<std::string> paths;  ///< directories, at least one, each once
  std::chrono::nanoseconds budget = std::chrono::seconds(60);
  std::function<void(const TuningProgress&)> progress = {};
  /// Asked some times a second on a thread of its own; true: it ends soon.
  std::function<bool()> interrupted = {};
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

/// Lays out a file a path, and measures each path and all together under our engine. Takes about
/// `budget` at most, and leaves no file. Errors: those of DriveTrial::prepare() and of the first
/// trials; never that it was interrupted.
Result<DriveTuning> tune_drives(const TuningRequest& request);

}  // namespace penstock::bench
