#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::bench {

/// Why a value cannot be taken: the end of a sentence that begins `KEY is "VALUE"; `. Nothing: it
/// was taken.
using Refusal = std::optional<std::string>;

inline constexpr std::uint64_t kMicrosecondNs = 1000;
inline constexpr std::uint64_t kMillisecondNs = 1000 * kMicrosecondNs;
inline constexpr std::uint64_t kSecondNs = 1000 * kMillisecondNs;

/// A time as fio reads it, to nanoseconds: a number with d, h, m, s, ms, us (and ns), or without a
/// unit in units of `bare_ns`.
Refusal read_time(std::string_view text, std::uint64_t bare_ns, std::uint64_t& ns);

}  // namespace penstock::bench
