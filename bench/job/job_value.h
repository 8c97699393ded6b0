#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bench/job/job.h"

// Readers of values that are more than a number or a word.

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
/// The parts of a drive, of which each may be left out; `drive` keeps what it has for those. Rates
/// are bytes per second as parse_bytes() reads them, above 0; a latency without a unit is
/// microseconds.
Refusal read_drive(std::string_view parts, SimulatedDrive& drive);

/// `ioengine=`: an engine under our name or fio's, or `sim:read=3.5g,write=3g,latency=80us`, of
/// which each part may be left out (these are what it is then).
Refusal read_engine(std::string_view text, Job& job);
/// `compute=[sleep:]TIME[/GB]`: spun and per tensor where it says nothing else. A time without a
/// unit is in microseconds.
Refusal read_compute(std::string_view text, Job& job);
/// `rw=`: read, write, rw (readwrite).
Refusal read_direction(std::string_view text, Job& job);
/// `size=`: bytes, or a share such as 10%.
Refusal read_job_size(std::string_view text, Job& job);
/// `cpus_allowed=`: `0-3,6`.
Refusal read_cpus(std::string_view text, Job& job);

}  // namespace penstock::bench
