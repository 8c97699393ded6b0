#pragma once

#include <functional>
#include <span>

#include "swap/update/accumulated_gradient.h"

namespace penstock {

/// A step over a stretch: masters, a state and gradients, equally many.
using PlainStep = std::function<void(std::span<float> master, std::span<float> state,
                                     std::span<const float> gradient)>;

/// Steps a stretch of an optimizer that has one fp32 state, in one pass: a few elements at a time,
/// in the caches, the gradient is widened and multiplied. Begins `threads` - 1 threads at most. The
/// result does not depend on them. CHECKs that state and gradient have as many elements.
/// Thread-safe for stretches that do not overlap.
void update_plain(const PlainStep& step, std::span<float> master, std::span<float> state,
                  const AccumulatedGradient& gradient, unsigned threads);

}  // namespace penstock
