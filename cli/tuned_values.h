#pragma once

#include <string>

#include "bench/tune/drive_tuning.h"
#include "bindings/deepspeed/swap_plan.h"
#include "cli/config_draft.h"

namespace penstock::cli {

/// The `aio` block, of which penstock reads little: what the file says stays; where it
/// has none, values that do for most drives; of names that DeepSpeed 0.19.8 does not read
/// (`thread_count`, and `num_threads`, which ds_nvme_tune writes) the number goes where it is read.
void set_aio(ConfigDraft& draft);

/// nvme_path of what is on NVMe, and `penstock.paths` with weights and the speeds measured.
void set_tuned_paths(const SwapPlan& plan, const bench::DriveTuning& measured, ConfigDraft& draft);

}  // namespace penstock::cli
