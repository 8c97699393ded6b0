#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "swap/update/state_format.h"

namespace penstock {

/// The first is a mean of gradients and has signs; the second one of squares and has none.
enum class Moment : std::uint8_t { kFirst, kSecond };

/// The numbers of [-1, 1] that codes of 4 or 8 bits stand for, and the nearest code of each number
/// by a look into a table. Immutable.
class CodeBook {
 public:
  /// `values` ascend. keeps_positive: a number above 0 never gets the code of 0.
  CodeBook(std::span<const float> values, bool keeps_positive);

  float value(std::uint8_t code) const noexcept { return values_[code]; }

  /// The code of the value that is nearest to `number`, which is in [-1, 1]. Of NaN some code.
  std::uint8_t nearest(float number) const noexcept {
    const std::uint8_t code = cells_[std::bit_cast<std::uint32_t>(number) >> kCellShift];
    return static_cast<std::uint8_t>(code + (number > thresholds_[code] ? 1 : 0));
  }

 private:
  // Floats with the same sign, exponent and seven bits behind it are one cell, which at most one
  // threshold divides.
  static constexpr unsigned kCellShift = 16;

  std::array<float, 256> values_{};
  std::array<float, 256> thresholds_{};          // above which the next code is nearer
  std::array<std::uint8_t, 1U << 16U> cells_{};  // the code of each cell's lowest number
};

/// The dynamic maps of bitsandbytes (functional.py: create_dynamic_map) for 8 bits and for signed 4
/// bits, and torchao's linear map without 0 for unsigned 4 bits (optim/subclass_4bit.py). A
/// positive second moment never becomes 0: divided by its root, the first would be far too large.
/// CHECKs that the format has codes. Thread-safe.
const CodeBook& code_book(StateFormat format, Moment moment);

/// Its values, ascending. Pure.
std::vector<float> code_values(StateFormat format, Moment moment);

}  // namespace penstock
