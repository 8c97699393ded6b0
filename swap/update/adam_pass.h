#pragma once

#include <cstddef>
#include <span>

#include "swap/plan/inventory.h"
#include "swap/update/adam.h"

namespace penstock {

/// A stretch of a parameter's states and its gradient as a runtime has accumulated it: equally many
/// elements.
struct AdamStretch {
  std::span<float> master;
  std::span<float> exp_avg;
  std::span<float> exp_avg_sq;
  std::span<const std::byte> gradient;  ///< aligned for its type
  DType gradient_dtype = DType::kF32;   ///< f32, bf16 or f16
  float gradient_factor = 1;            ///< unscales and clips; multiplied in single precision
};

/// Steps a stretch in one pass: the gradient is widened and multiplied a few elements at a time,
/// in the caches, and stays as it is. Begins `threads` - 1 threads where the stretch is long enough
/// to be worth it. Thread-safe for stretches that do not overlap.
void update_stretch(const AdamStep& step, const AdamStretch& stretch, unsigned threads);

}  // namespace penstock
