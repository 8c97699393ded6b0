#include "swap/plan/natural_order.h"

#include <cstddef>

namespace penstock {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// The digits at `at`, without leading zeros; moves `at` behind them.
std::string_view take_number(std::string_view text, std::size_t& at) noexcept {
  while (at < text.size() && text[at] == '0') {
    ++at;
  }
  const std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) {
    ++at;
  }
  return text.substr(begin, at - begin);
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) noexcept {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view left = take_number(a, i);
      const std::string_view right = take_number(b, j);
      if (left.size() != right.size()) {
        return left.size() < right.size();
      }
      if (left != right) {
        return left < right;
      }
    } else if (a[i] != b[j]) {
      return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    } else {
      ++i;
      ++j;
    }
  }
  const std::size_t left_rest = a.size() - i;
  const std::size_t right_rest = b.size() - j;
  if ((left_rest == 0) != (right_rest == 0)) {
    return left_rest == 0;
  }
  return a < b;  // equal but for leading zeros
}

}  // namespace penstock
