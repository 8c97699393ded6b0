#pragma once

#include <string_view>

#include "alloc/result.h"

namespace penstock {

/// Whether a tensor may have this name, wherever it comes from: 1 to 4096 bytes of UTF-8 without
/// control characters (names stand in messages, tables and JSON), and not `__metadata__`, which a
/// safetensors header uses for something else. Errors: Fault::kInvalidArgument, a sentence that
/// shows the name.
Result<void> check_tensor_name(std::string_view name);

/// The name of what a tensor is a chunk of: chunks have their numbers behind a slash
/// (`sub-group 3 master/17`). Of any other name all of it. Pure.
std::string_view whole_name(std::string_view name) noexcept;

}  // namespace penstock
