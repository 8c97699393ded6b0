#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bench/job/refusal.h"

namespace penstock::bench {

inline constexpr std::uint64_t kMicrosecondNs = 1000;
inline constexpr std::uint64_t kMillisecondNs = 1000 * kMicrosecondNs;
inline constexpr std::uint64_t kSecondNs = 1000 * kMillisecondNs;

/// A whole number as fio reads it: decimal or 0x…, with k, m, g, t, p of 1024, in either case, also
/// as kb, ki and KiB. (fio itself reads `KiB` as 1000, unless `kb_base=1000`; nobody means that.)
/// Where fio stops at the first letter that it does not know, we refuse.
Refusal read_whole_number(std::string_view text, std::uint64_t& number);
/// The shortest text that read_whole_number() reads as this: `64k`, `4097`.
std::string write_bytes(std::uint64_t bytes);

/// A time as fio reads it, to nanoseconds: a number with d, h, m, s, ms, us (and ns), or without a
/// unit in units of `bare_ns`.
Refusal read_time(std::string_view text, std::uint64_t bare_ns, std::uint64_t& ns);
/// With the largest unit that divides it: `5m`, `90s`, `80us`.
std::string write_time(std::uint64_t ns);

/// 0 or 1; nothing after a key that needs no value is 1.
Refusal read_flag(std::string_view text, bool& flag);

}  // namespace penstock::bench
