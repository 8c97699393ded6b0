#pragma once

#include "bindings/deepspeed/config.h"
#include "bindings/deepspeed/config_section.h"

namespace penstock {

/// What of DeepSpeed's keys bears on swapping, from the top of its file. Keys that DeepSpeed knows
/// and we do not read, and keys that nobody knows, pass: judging them is DeepSpeed's affair.
DeepSpeedConfig read_deepspeed_config(ConfigSection& top);

}  // namespace penstock
