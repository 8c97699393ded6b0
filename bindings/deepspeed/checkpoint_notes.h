#pragma once

#include "bindings/deepspeed/checkpoint_summary.h"

namespace penstock {

/// Adds sentences on where the checkpoint lies, and on what of it is not listed whole.
void note_contents(CheckpointSummary& summary);

}  // namespace penstock
