#pragma once

#include <optional>
#include <string>

#include "bindings/deepspeed/checkpoint_summary.h"

namespace penstock {

/// The folder of the newest checkpoint beside this one that can be resumed, for where this one
/// cannot. Nothing where there is none.
std::optional<std::string> find_older_checkpoint(const CheckpointSummary& summary);

}  // namespace penstock
