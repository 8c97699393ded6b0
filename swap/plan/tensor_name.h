#pragma once

#include <string_view>

#include "alloc/result.h"

namespace penstock {

/// Whether a tensor may have this name, wherever it comes from: 1 to 4096 bytes of UTF-8 without
/// control characters (names stand in messages, tables and JSON), and not `__metadata__`, which a
/// safetensors header uses for something else. Errors: Fault::kInvalidArgument, a sentence that
/// shows the name.
Result<void> check_tensor_name(std::string_view name);

}  // namespace penstock
