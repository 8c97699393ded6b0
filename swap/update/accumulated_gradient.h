#pragma once

#include <cstddef>
#include <span>

#include "swap/plan/inventory.h"

namespace penstock {

/// A gradient as a runtime has accumulated it.
struct AccumulatedGradient {
  std::span<const std::byte> bytes;  ///< aligned for its type
  DType dtype = DType::kF32;         ///< f32, bf16 or f16
  float factor = 1;                  ///< unscales and clips; multiplied in single precision

  /// Whether it is of a type that can be widened, and has as many elements. Pure.
  bool has_elements(std::size_t count) const noexcept;
  /// Elements from `first` on as floats, as many as `memory` has, with the factor in them: there,
  /// or where they lie already. The gradient stays as it is. Thread-safe for memory of one's own.
  std::span<const float> widened(std::size_t first, std::span<float> memory) const;
};

}  // namespace penstock
