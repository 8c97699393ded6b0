#pragma once

#include "bindings/deepspeed/config.h"
#include "bindings/deepspeed/config_section.h"

namespace penstock {

/// Those of DeepSpeed's keys that concern swapping, from the top of its file. All other keys, known
/// to DeepSpeed or not, are accepted: DeepSpeed checks them.
DeepSpeedConfig read_deepspeed_config(ConfigSection& top);

}  // namespace penstock
