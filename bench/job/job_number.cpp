#include "bench/job/job_number.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array kByteUnits = {
    Unit{"p", kKiB* kKiB* kGiB},
    Unit{"t", kKiB* kGiB},
    Unit{"g", kGiB},
    Unit{"m", kMiB},
    Unit{"k", kKiB},
};

constexpr std::uint64_t kMinuteNs = 60 * kSecondNs;
constexpr std::uint64_t kHourNs = 60 * kMinuteNs;
constexpr std::array kTimeUnits = {
    Unit{"d", 24 * kHourNs}, Unit{"h", kHourNs},         Unit{"m", kMinuteNs},
    Unit{"s", kSecondNs},    Unit{"ms", kMillisecondNs}, Unit{"us", kMicrosecondNs},
    Unit{"ns", 1},
};

std::string lower_case(std::string_view text) {
  std::string lowered(text);
  for (char& letter : lowered) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return lowered;
}

/// Takes decimal or 0x digits off the front of `text` (lower case).
bool take_number(std::string_view& text, std::uint64_t& number) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) {
    text.remove_prefix(2);
  }
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, hexadecimal ? 16 : 10);
  if (error != std::errc()) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// The factor of `k`, `kb`, `ki`, `kib`…; 0 where it is none of these.
std::uint64_t byte_factor(std::string_view unit) {
  if (unit == "b") {
    return 1;
  }
  for (const Unit& known : kByteUnits) {
    if (unit.starts_with(known.name)) {
      const std::string_view rest = unit.substr(known.name.size());
      return rest.empty() || rest == "b" || rest == "i" || rest == "ib" ? known.factor : 0;
    }
  }
  return unit.empty() ? 1 : 0;
}

std::uint64_t time_factor(std::string_view unit, std::uint64_t bare_ns) {
  if (unit.empty()) {
    return bare_ns;
  }
  for (const Unit& known : kTimeUnits) {
    if (unit == known.name) {
      return known.factor;
    }
  }
  return 0;
}

}  // namespace

Refusal read_whole_number(std::string_view text, std::uint64_t& number) {
  const std::string lowered = lower_case(text);
  std::string_view rest = lowered;
  std::uint64_t digits = 0;
  if (!take_number(rest, digits)) {
    return "a whole number is allowed, with k, m, g, t or p for units of 1024";
  }
  const std::uint64_t factor = byte_factor(rest);
  if (factor == 0) {
    return "a whole number is allowed, and after it k, m, g, t or p (units of 1024)";
  }
  if (digits > std::numeric_limits<std::uint64_t>::max() / factor) {
    return "numbers up to 64 bits are allowed";
  }
  number = digits * factor;
  return {};
}

Refusal read_time(std::string_view text, std::uint64_t bare_ns, std::uint64_t& ns) {
  const std::string lowered = lower_case(text);
  std::string_view rest = lowered;
  std::uint64_t digits = 0;
  const std::uint64_t factor = take_number(rest, digits) ? time_factor(rest, bare_ns) : 0;
  if (factor == 0) {
    return fmt::format(
        "a whole number with d, h, m, s, ms, us or ns is allowed, or without a unit in {}",
        bare_ns == kSecondNs ? "seconds" : "microseconds");
  }
  if (digits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / factor) {
    return "times up to 292 years are allowed";
  }
  ns = digits * factor;
  return {};
}

}  // namespace penstock::bench
