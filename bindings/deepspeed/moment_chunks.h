#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bindings/deepspeed/plan_warning.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/update/state_format.h"

namespace penstock {

/// The chunks of a sub-group.
using MomentChunks = std::vector<std::vector<StateSegment>>;

/// The chunks that the step of an optimizer goes through, by sub-group, and how the moments of
/// each are stored: this rank's partitions in a row, each in the format of its parameter. Empty
/// where the step does not go through chunks. Pure.
std::vector<MomentChunks> moment_chunks(const TrainingSetup& setup);

/// Elements of a chunk.
std::uint64_t elements_of(std::span<const StateSegment> chunk) noexcept;

/// Bytes of both moments on this rank's drives if `optimizer_states` were `format`; 0: the setup's
/// step does not go through chunks, or the inventory lists its moments.
std::uint64_t swapped_moment_bytes(TrainingSetup setup, StateFormat format);

/// What is wrong with `optimizer_states` and `fp32_states`.
std::vector<PlanWarning> warn_about_states(const TrainingSetup& setup);

}  // namespace penstock
