#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bindings/deepspeed/plan_warning.h"
#include "bindings/deepspeed/refused_setting.h"

namespace penstock {

struct TrainingSetup;

/// Each that there is: what training asks for a sentence, and the plan for a setting.
std::vector<RefusedSetting> all_refused_settings();

/// Those that the whole configuration `file` has.
std::vector<RefusedSetting> refused_settings(const nlohmann::json& file);

/// One warning for each that training refuses in this setup, each a misfit.
std::vector<PlanWarning> warn_about_refusals(const TrainingSetup& setup);

/// Masters of 16 bits with an optimizer that DeepSpeed refuses them for: a misfit.
std::vector<PlanWarning> warn_about_masters(const TrainingSetup& setup);

/// What the plan takes for granted of an optimizer that swaps: the script brings its own, or it is
/// one whose states are not known.
std::vector<PlanWarning> warn_about_optimizer(const TrainingSetup& setup);

/// Batch sizes that do not fit each other, which DeepSpeed refuses.
std::vector<PlanWarning> warn_about_batches(const TrainingSetup& setup);

}  // namespace penstock
