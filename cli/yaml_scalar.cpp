#include "cli/yaml_scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace penstock::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kSpacedDigits = "0123456789_";

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, text) != words.end();
}

bool is_made_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

bool takes_sign(std::string_view& text) {
  const bool has_sign = text.starts_with('+') || text.starts_with('-');
  text.remove_prefix(has_sign ? 1 : 0);
  return has_sign;
}

std::string without_underscores(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

std::optional<std::uint64_t> whole_number(std::string_view text, int base) {
  const std::string digits = without_underscores(text);
  const char* const end = digits.data() + digits.size();
  std::uint64_t value = 0;
  const auto [stopped, error] = std::from_chars(digits.data(), end, value, base);
  return error == std::errc() && stopped == end ? std::optional(value) : std::nullopt;
}

/// `10`, and `1:30`, of which all parts but the first are below 60.
std::optional<std::uint64_t> decimal(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view first = text.substr(0, colon);
  std::optional<std::uint64_t> value =
      is_made_of(first, kSpacedDigits) ? whole_number(first, 10) : std::nullopt;
  for (std::size_t at = colon; value && at != std::string_view::npos;) {
    const std::size_t next = text.find(':', at + 1);
    const std::string_view part = text.substr(at + 1, next - at - 1);
    const std::uint64_t digits =
        is_made_of(part, kDigits) && part.size() <= 2 ? *whole_number(part, 10) : 60;
    if (digits >= 60 || __builtin_mul_overflow(*value, 60U, &*value) ||
        __builtin_add_overflow(*value, digits, &*value)) {
      return std::nullopt;
    }
    at = next;
  }
  return value;
}

std::optional<std::uint64_t> magnitude(std::string_view text) {
  if (text.starts_with("0b")) {
    text.remove_prefix(2);
    return is_made_of(text, "01_") ? whole_number(text, 2) : std::nullopt;
  }
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    return is_made_of(text, "0123456789abcdefABCDEF_") ? whole_number(text, 16) : std::nullopt;
  }
  if (text.starts_with('0')) {
    return is_made_of(text, "01234567_") ? whole_number(text, 8) : std::nullopt;
  }
  return text.starts_with('_') ? std::nullopt : decimal(text);
}

std::optional<json> integer(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  takes_sign(text);
  const std::optional<std::uint64_t> value = magnitude(text);
  if (!value || *value > std::numeric_limits<std::int64_t>::max()) {
    return std::nullopt;
  }
  return is_negative && *value > 0 ? json(-static_cast<std::int64_t>(*value)) : json(*value);
}

/// Digits and a point, a sign only in front of digits, and an exponent only with its sign.
bool is_fraction(std::string_view text) {
  const bool has_sign = takes_sign(text);
  const std::size_t exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (!takes_sign(power) || !is_made_of(power, kDigits)) {
      return false;
    }
    text = text.substr(0, exponent);
  }
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) {
    return false;
  }
  const std::string_view whole = text.substr(0, point);
  const std::string_view rest = text.substr(point + 1);
  const std::string_view first = whole.empty() ? rest : whole;
  return (!whole.empty() || !has_sign) && !first.starts_with('_') &&
         is_made_of(first, kSpacedDigits) && (rest.empty() || is_made_of(rest, kSpacedDigits));
}

std::optional<json> fraction(std::string_view text) {
  if (!is_fraction(text)) {
    return std::nullopt;
  }
  text.remove_prefix(text.starts_with('+') ? 1 : 0);  // which from_chars() refuses
  const std::string digits = without_underscores(text);
  double value = 0;
  const auto [stopped, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_whole = error == std::errc() && stopped == digits.data() + digits.size();
  return is_whole ? std::optional<json>(value) : std::nullopt;
}

}  // namespace

json plain_scalar(const std::string& text) {
  constexpr std::array<std::string_view, 5> kNull{"", "~", "null", "Null", "NULL"};
  constexpr std::array<std::string_view, 9> kTrue{"yes",  "Yes", "YES", "true", "True",
                                                  "TRUE", "on",  "On",  "ON"};
  constexpr std::array<std::string_view, 9> kFalse{"no",    "No",  "NO",  "false", "False",
                                                   "FALSE", "off", "Off", "OFF"};
  if (is_one_of(text, kNull)) {
    return nullptr;
  }
  if (is_one_of(text, kTrue) || is_one_of(text, kFalse)) {
    return is_one_of(text, kTrue);
  }
  if (const std::optional<json> whole = integer(text)) {
    return *whole;
  }
  const std::optional<json> number = fraction(text);
  return number ? *number : json(text);
}

}  // namespace penstock::cli
