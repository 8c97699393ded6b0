#include "bench/job/job_number.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

namespace penstock::bench {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::uint64_t kMinuteNs = 60 * kSecondNs;
constexpr std::uint64_t kHourNs = 60 * kMinuteNs;
constexpr std::array kTimeUnits = {
    Unit{"d", 24 * kHourNs}, Unit{"h", kHourNs},         Unit{"m", kMinuteNs},
    Unit{"s", kSecondNs},    Unit{"ms", kMillisecondNs}, Unit{"us", kMicrosecondNs},
    Unit{"ns", 1},
};

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

Refusal read_time(std::string_view text, std::uint64_t bare_ns, std::uint64_t& ns) {
  std::uint64_t digits = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, digits);
  const std::uint64_t factor =
      error == std::errc() ? time_factor(std::string_view(unit, end), bare_ns) : 0;
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
