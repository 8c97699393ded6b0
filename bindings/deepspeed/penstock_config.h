#pragma once

#include "bindings/deepspeed/config.h"
#include "bindings/deepspeed/config_section.h"
#include "swap/update/state_format.h"

namespace penstock {

/// An engine to keep tensors with. Errors: no engine's name; `null`, into which they would vanish.
Result<EngineKind> parse_storing_engine(std::string_view text);

/// What the `penstock` block says.
struct PenstockConfig {
  EngineConfig engine;
  StateFormats states;  ///< of the optimizer
};

/// The block of a file's top, all defaults where there is none. Unknown keys are problems.
PenstockConfig read_penstock_config(ConfigSection& top);

}  // namespace penstock
