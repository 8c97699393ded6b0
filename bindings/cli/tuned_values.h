#pragma once

#include <string>

#include "bench/tune/drive_tuning.h"
#include "bindings/cli/config_draft.h"
#include "bindings/deepspeed/swap_plan.h"

namespace penstock::cli {

/// The `aio` block as far as it is known without measuring: what the file says stays; where it has
/// none, values that do for most drives; of names that DeepSpeed 0.19.8 does not read
/// (`thread_count`, and `num_threads`, which ds_nvme_tune writes) the number goes where it is read.
void set_aio_unmeasured(ConfigDraft& draft);

/// The `aio` block by what was measured, each key with the figure that decided.
void set_tuned_aio(const bench::DriveTuning& measured, ConfigDraft& draft);

/// nvme_path of what is on NVMe, and `penstock.paths` with weights and the speeds measured.
void set_tuned_paths(const SwapPlan& plan, const bench::DriveTuning& measured, ConfigDraft& draft);

/// `1.21 x (1.15 to 1.26, 6 turns)`.
std::string describe(const bench::Advantage& advantage);

}  // namespace penstock::cli
