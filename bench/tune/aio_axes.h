#pragma once

#include <vector>

#include "bench/tune/drive_trial.h"
#include "bench/tune/setting_search.h"
#include "bindings/deepspeed/training_setup.h"

namespace penstock::bench {

/// The present `aio` block of a configuration, within what can be run.
AioSettings aio_settings(const AioConfig& config);

/// The keys of `aio` whose values decide speed, in the order in which they are searched:
/// queue_depth, block_size, intra_op_parallelism, and overlap_events where that is off. Block sizes
/// leave the same tensors on the drive as the present one does, for max(1 MiB, block_size) is what
/// DeepSpeed keeps in RAM; threads are at most `cpus`.
std::vector<SettingAxis> aio_axes(const TrainingSetup& setup, std::uint32_t cpus);

/// Points of these axes and settings.
SettingPoint to_point(const AioSettings& settings, std::size_t axes);
AioSettings to_settings(const SettingPoint& point);
/// Whether no more is under way than any drive can make use of.
bool is_worth_trying(const AioSettings& settings);

}  // namespace penstock::bench
