#pragma once

#include <string>

#include "bench/tune/drive_tuning.h"
#include "bindings/deepspeed/swap_plan.h"
#include "cli/emitted_config.h"

namespace penstock::cli {

/// Everything that `penstock tune` has found. What it points to outlives it.
struct TuneReport {
  const SwapPlan* before = nullptr;  ///< the plan with the file as it was
  const SwapPlan* after = nullptr;   ///< with the one that is written
  const bench::DriveMix* mix = nullptr;
  const bench::DriveTuning* tuning = nullptr;
  const EmittedConfig* emitted = nullptr;
};

/// For people: the drives, old and new side by side with the reason of each key, and what a step
/// takes with either.
std::string tune_text(const TuneReport& report);
/// penstock.tune/1, described in docs/TUNE.md.
std::string tune_json(const TuneReport& report);

}  // namespace penstock::cli
