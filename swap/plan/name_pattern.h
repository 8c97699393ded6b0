#pragma once

#include <string_view>

namespace penstock {

/// Whether `pattern` matches the whole of `name`: `*` stands for any letters (dots too), `?` for
/// one. Time is at most pattern x name, whatever the pattern.
bool matches_pattern(std::string_view pattern, std::string_view name) noexcept;

}  // namespace penstock
