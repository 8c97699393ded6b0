#pragma once

#include <cstddef>

namespace penstock {

/// A tensor may be cut into stretches that are stepped by themselves at multiples of so many
/// elements: whole vectors of any instructions.
inline constexpr std::size_t kCutElements = 128;

/// Elements of a run, which a step goes through in one go: as floats 16 KiB, of which the first
/// cache has three.
inline constexpr std::size_t kRunElements = 4096;
static_assert(kRunElements % kCutElements == 0);

}  // namespace penstock
