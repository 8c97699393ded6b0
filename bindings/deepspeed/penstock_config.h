#pragma once

#include "bindings/deepspeed/config.h"
#include "bindings/deepspeed/config_section.h"

namespace penstock {

/// An engine to keep tensors with. Errors: no engine's name; `null`, into which they would vanish.
Result<EngineKind> parse_storing_engine(std::string_view text);

/// The `penstock` block of a file's top, all defaults where there is none. Unknown keys are
/// problems.
EngineConfig read_penstock_config(ConfigSection& top);

}  // namespace penstock
