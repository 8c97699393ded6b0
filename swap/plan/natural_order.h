#pragma once

#include <string_view>

namespace penstock {

/// Whether `a` comes before `b` as people count: digits compare as numbers, so that `layers.2.`
/// comes before `layers.10.`. A strict total order: names that differ never compare equal.
bool natural_less(std::string_view a, std::string_view b) noexcept;

}  // namespace penstock
