#pragma once

#include <string>
#include <vector>

#include "bench/tune/drive_tuning.h"
#include "bindings/deepspeed/swap_plan.h"
#include "cli/config_draft.h"

namespace penstock::cli {

struct EmittedConfig {
  ConfigDraft::Json document;
  std::string json;             ///< the document as a file
  std::vector<ConfigRow> rows;  ///< every key that was judged, changed or not
};

/// A DeepSpeed JSON for the plan: `config_json` (or, where it is empty, a minimal one)
/// with a buffer_size that holds the largest partition, a buffer_count that holds what DeepSpeed
/// brings together while it builds the model (all parameters where the trainer generates), no reuse
/// distance where its buffers are too few for that, enough buffers for its optimizer, an `aio`
/// block, the penstock block with the plan's budgets, and the stage where --stage gave it. With
/// `measured` (null: nothing was) paths are what was found on the drives. All other keys stay as
/// they are. Stock DeepSpeed builds the model with it, and so does penstock.
EmittedConfig emit_config(const SwapPlan& plan, const std::string& config_json,
                          const bench::DriveTuning* measured = nullptr);

}  // namespace penstock::cli
