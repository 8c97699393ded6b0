#pragma once

#include <optional>
#include <string>

namespace penstock::bench {

/// Why a value cannot be taken: the end of a sentence that begins `KEY is "VALUE"; `. Nothing: it
/// was taken.
using Refusal = std::optional<std::string>;

}  // namespace penstock::bench
