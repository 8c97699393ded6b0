#include "bindings/deepspeed/config_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "alloc/bytes.h"
#include "alloc/lower_case.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr double kCountEnd = 18446744073709551616.0;  // 2^64

constexpr std::array<std::string_view, 6> kTrueTexts{"true", "t", "yes", "y", "on", "1"};
constexpr std::array<std::string_view, 6> kFalseTexts{"false", "f", "no", "n", "off", "0"};

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Python's own form of a number: 1_000.
std::optional<std::string> without_underscores(std::string_view text) {
  if (text.starts_with('_') || text.ends_with('_') || text.find("__") != text.npos) {
    return std::nullopt;
  }
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

std::optional<std::uint64_t> digits(const std::string& value) {
  const std::optional<std::string> text = without_underscores(without_blanks(value));
  if (!text || text->empty()) {
    return std::nullopt;
  }
  std::uint64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<bool> json_flag(const json& value) {
  if (value.is_boolean()) {
    return value.get<bool>();
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    return number == 0 || number == 1 ? std::optional(number == 1) : std::nullopt;
  }
  if (!value.is_string()) {
    return std::nullopt;
  }
  const std::string text = lower_case(value.get_ref<const std::string&>());
  if (std::ranges::count(kTrueTexts, text) != 0) {
    return true;
  }
  return std::ranges::count(kFalseTexts, text) != 0 ? std::optional(false) : std::nullopt;
}

bool is_truthy(const json& value) {
  if (value.is_string()) {
    return !value.get_ref<const std::string&>().empty();
  }
  return value.is_boolean()  ? value.get<bool>()
         : value.is_number() ? value.get<double>() != 0
                             : !value.empty();  // null is
}

std::optional<std::uint64_t> json_whole_number(const json& value) {
  if (value.is_number_unsigned()) {
    return value.get<std::uint64_t>();
  }
  if (!value.is_number_float()) {
    return std::nullopt;
  }
  const double number = value.get<double>();
  return number >= 0 && number < kCountEnd && std::floor(number) == number
             ? std::optional(static_cast<std::uint64_t>(number))
             : std::nullopt;
}

std::optional<std::uint64_t> json_count(const json& value) {
  return value.is_string() ? digits(value.get_ref<const std::string&>()) : json_whole_number(value);
}

std::optional<std::uint64_t> json_bytes(const json& value) {
  if (!value.is_string()) {
    return json_whole_number(value);
  }
  const Result<std::uint64_t> bytes = parse_bytes(value.get_ref<const std::string&>());
  return bytes.has_value() ? std::optional(*bytes) : std::nullopt;
}

}  // namespace penstock
