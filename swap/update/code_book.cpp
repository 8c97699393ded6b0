#include "swap/update/code_book.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "alloc/check.h"

namespace penstock {
namespace {

constexpr std::uint32_t kOne = 0x3f800000;  // the bits of 1.0F
constexpr std::uint32_t kSign = 0x80000000;

/// Decades that each have twice as many values as the one below; their means are even spaced. 0 and
/// 1 besides.
std::vector<float> dynamic_values(int decades, bool is_signed) {
  std::vector<float> values{0.0F, 1.0F};
  for (int decade = 0; decade < decades; ++decade) {
    const int count = 1 << (is_signed ? decade : decade + 1);
    const double scale = std::pow(10.0, decade - decades + 1);
    for (int i = 0; i < count; ++i) {
      const auto value = static_cast<float>(scale * (0.1 + 0.9 * (i + 0.5) / count));
      values.push_back(value);
      if (is_signed) {
        values.push_back(-value);
      }
    }
  }
  std::ranges::sort(values);
  return values;
}

std::vector<float> linear_values() {
  std::vector<float> values;
  for (int i = 1; i <= 16; ++i) {
    values.push_back(static_cast<float>(i) / 16);
  }
  return values;
}

CodeBook make_book(StateFormat format, Moment moment) {
  return {code_values(format, moment), moment == Moment::kSecond};
}

}  // namespace

CodeBook::CodeBook(std::span<const float> values, bool keeps_positive) {
  PENSTOCK_CHECK(!values.empty() && values.size() <= values_.size(), "{} codes", values.size());
  std::ranges::copy(values, values_.begin());
  thresholds_.fill(std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    const bool is_zero = keeps_positive && values[i] == 0;
    thresholds_[i] = is_zero ? 0 : (values[i] + values[i + 1]) / 2;
  }
  const std::span thresholds = std::span(thresholds_).first(values.size());
  const auto code_of = [&](std::uint32_t bits) {
    const auto above = std::ranges::lower_bound(thresholds, std::bit_cast<float>(bits));
    return static_cast<std::uint8_t>(
        std::min<std::ptrdiff_t>(above - thresholds.begin(), std::ssize(thresholds) - 1));
  };
  constexpr std::uint32_t kRest = (1U << kCellShift) - 1;
  for (std::uint32_t cell = 0; cell <= (kOne >> kCellShift); ++cell) {
    const std::uint32_t low = cell << kCellShift;
    cells_[cell] = code_of(low);
    cells_[(kSign | low) >> kCellShift] = code_of(kSign | low | kRest);
    const bool is_divided_once = code_of(std::min(low | kRest, kOne)) - code_of(low) <= 1 &&
                                 code_of(kSign | low) - code_of(kSign | low | kRest) <= 1;
    PENSTOCK_CHECK(is_divided_once, "codes near {} are too near to each other",
                   std::bit_cast<float>(low));
  }
}

std::vector<float> code_values(StateFormat format, Moment moment) {
  const bool is_signed = moment == Moment::kFirst;
  if (format == StateFormat::k8Bit) {
    return dynamic_values(7, is_signed);
  }
  PENSTOCK_CHECK(format == StateFormat::k4Bit, "{} has no codes", state_format_name(format));
  return is_signed ? dynamic_values(3, true) : linear_values();
}

const CodeBook& code_book(StateFormat format, Moment moment) {
  static const std::array<CodeBook, 4> books{make_book(StateFormat::k8Bit, Moment::kFirst),
                                             make_book(StateFormat::k8Bit, Moment::kSecond),
                                             make_book(StateFormat::k4Bit, Moment::kFirst),
                                             make_book(StateFormat::k4Bit, Moment::kSecond)};
  PENSTOCK_CHECK(format == StateFormat::k8Bit || format == StateFormat::k4Bit, "{} has no codes",
                 state_format_name(format));
  return books[(format == StateFormat::k4Bit ? 2U : 0U) + (moment == Moment::kSecond ? 1U : 0U)];
}

}  // namespace penstock
