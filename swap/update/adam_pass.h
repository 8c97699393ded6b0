#pragma once

#include <cstddef>
#include <span>

#include "swap/update/accumulated_gradient.h"
#include "swap/update/adam.h"
#include "swap/update/moment_layout.h"

namespace penstock {

/// A stretch of a parameter's states and its gradient: equally many elements. The two layouts are
/// of the same segments.
struct AdamStretch {
  std::span<float> master;
  std::span<std::byte> exp_avg;
  std::span<std::byte> exp_avg_sq;
  const MomentLayout& exp_avg_layout;
  const MomentLayout& exp_avg_sq_layout;
  AccumulatedGradient gradient;
};

/// Whether all of it has equally many elements, moments lie as their layouts say, and both layouts
/// are cut at the same elements. Pure.
bool is_whole(const AdamStretch& stretch) noexcept;

/// Steps a stretch in one pass: a few elements at a time, in the caches, the gradient is widened
/// and multiplied, and moments that are not fp32 are decoded, stepped and encoded. Begins
/// `threads` - 1 threads at most. The result does not depend on them. CHECKs is_whole().
/// Thread-safe for stretches that do not overlap.
void update_stretch(const AdamStep& step, const AdamStretch& stretch, unsigned threads);

}  // namespace penstock
