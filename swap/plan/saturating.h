#pragma once

#include <cstdint>
#include <limits>

namespace penstock {

/// a x b, or the largest number there is where that is less: users write 1e18 to mean "no limit".
constexpr std::uint64_t multiply_saturating(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  return b != 0 && a > kMax / b ? kMax : a * b;
}

/// a + b, or the largest number there is.
constexpr std::uint64_t add_saturating(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  return a > kMax - b ? kMax : a + b;
}

}  // namespace penstock
