#include "alloc/bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "alloc/excerpt.h"
#include "alloc/lower_case.h"

namespace penstock {
namespace {

struct Unit {
  std::string_view name;  // lower case
  std::uint64_t bytes;
};

constexpr std::uint64_t kKilo = 1000;
constexpr std::array kUnits = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"k", kKiB},
    Unit{"kib", kKiB},
    Unit{"kb", kKilo},
    Unit{"m", kMiB},
    Unit{"mib", kMiB},
    Unit{"mb", kKilo* kKilo},
    Unit{"g", kGiB},
    Unit{"gib", kGiB},
    Unit{"gb", kKilo* kKilo* kKilo},
    Unit{"t", kKiB* kGiB},
    Unit{"tib", kKiB* kGiB},
    Unit{"tb", kKilo* kKilo* kKilo* kKilo},
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || c == '\t';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

// mantissa * 10^exponent, exactly: a double would already round 2^53 + 1 bytes.
struct Decimal {
  std::uint64_t mantissa = 0;
  int exponent = 0;
};

constexpr int kExponentMax = 1000;  // far beyond any size; keeps `int` safe from overflow

// Takes `digits` off the front of `text`, appending them to `number`; false when it overflows.
bool take_digits(std::string_view& text, Decimal& number, int exponent_step, bool& any) {
  while (!text.empty() && is_digit(text.front())) {
    const auto digit = static_cast<std::uint64_t>(text.front() - '0');
    if (__builtin_mul_overflow(number.mantissa, 10U, &number.mantissa) ||
        __builtin_add_overflow(number.mantissa, digit, &number.mantissa)) {
      return false;
    }
    number.exponent -= exponent_step;
    any = true;
    text.remove_prefix(1);
  }
  return true;
}

// Takes `e+9` off the front of `text` where it is one; leaves it alone where it is not.
void take_exponent(std::string_view& text, Decimal& number) {
  if (text.empty() || (text.front() != 'e' && text.front() != 'E')) {
    return;
  }
  std::string_view rest = text.substr(1);
  bool negative = false;
  if (!rest.empty() && (rest.front() == '+' || rest.front() == '-')) {
    negative = rest.front() == '-';
    rest.remove_prefix(1);
  }
  if (rest.empty() || !is_digit(rest.front())) {
    return;
  }
  int exponent = 0;
  while (!rest.empty() && is_digit(rest.front())) {
    exponent = std::min(exponent * 10 + (rest.front() - '0'), kExponentMax);
    rest.remove_prefix(1);
  }
  number.exponent += negative ? -exponent : exponent;
  text = rest;
}

std::optional<std::uint64_t> unit_bytes(std::string_view text) {
  const std::string name = lower_case(std::string(text));
  const auto unit = std::ranges::find(kUnits, name, &Unit::name);
  return unit == kUnits.end() ? std::nullopt : std::optional(unit->bytes);
}

// Divides one of the two factors by `divisor`; false when neither has it, that is when their
// product is no multiple of it (`divisor` is prime).
bool divide_one(std::uint64_t& a, std::uint64_t& b, std::uint64_t divisor) {
  std::uint64_t& factor = a % divisor == 0 ? a : b;
  if (factor % divisor != 0) {
    return false;
  }
  factor /= divisor;
  return true;
}

// number * unit as a whole number of bytes, or why it is none.
std::optional<std::uint64_t> multiply(Decimal number, std::uint64_t unit, std::string& reason) {
  if (number.mantissa == 0) {
    return 0;
  }
  for (; number.exponent < 0; ++number.exponent) {
    if (!divide_one(number.mantissa, unit, 2) || !divide_one(number.mantissa, unit, 5)) {
      reason = "is not a whole number of bytes";
      return std::nullopt;
    }
  }
  bool too_large = false;
  for (; number.exponent > 0 && !too_large; --number.exponent) {
    too_large = __builtin_mul_overflow(number.mantissa, 10U, &number.mantissa);
  }
  if (too_large || __builtin_mul_overflow(number.mantissa, unit, &number.mantissa)) {
    reason = "is larger than 16 EiB";
    return std::nullopt;
  }
  return number.mantissa;
}

Error not_a_size(std::string_view text, std::string_view reason) {
  return fault(
      Fault::kConfiguration,
      fmt::format("'{}' {}; write a size as 4194304, 64MiB, 1.5g or 1GB", excerpt(text), reason));
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  std::string_view rest = trimmed(text);
  if (!rest.empty() && rest.front() == '-') {
    return not_a_size(text, "is negative");
  }
  Decimal number;
  bool any_digit = false;
  bool fits = take_digits(rest, number, 0, any_digit);
  if (fits && !rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    fits = take_digits(rest, number, 1, any_digit);
  }
  if (!fits) {
    return not_a_size(text, "has too many digits");
  }
  if (!any_digit) {
    return not_a_size(text, "is not a number of bytes");
  }
  take_exponent(rest, number);
  const std::optional<std::uint64_t> unit = unit_bytes(trimmed(rest));
  if (!unit) {
    return not_a_size(text, fmt::format("has the unknown unit '{}'", excerpt(trimmed(rest))));
  }
  std::string reason;
  const std::optional<std::uint64_t> bytes = multiply(number, *unit, reason);
  if (!bytes) {
    return not_a_size(text, reason);
  }
  return *bytes;
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < kKiB) {
    return fmt::format("{} B", bytes);
  }
  static constexpr std::array<std::string_view, 6> kNames = {"KiB", "MiB", "GiB",
                                                             "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / static_cast<double>(kKiB);
  std::size_t name = 0;
  // 1023.95 would be printed as 1024.0: the next unit says it better.
  while (value >= 1023.95 && name + 1 < kNames.size()) {
    value /= static_cast<double>(kKiB);
    ++name;
  }
  return fmt::format("{:.1f} {}", value, kNames[name]);
}

}  // namespace penstock
