#pragma once

#include <cstdint>
#include <string_view>

#include "bench/job/job_number.h"

namespace penstock::bench {

/// A drive by its numbers: `read=3.5g,write=3g,latency=80us`.
struct SimulatedDrive {
  std::uint64_t read_bytes_per_second = 0;
  std::uint64_t write_bytes_per_second = 0;
  std::uint64_t latency_ns = 0;
  /// `clock=real`: the same rates over the files of `directory`, by the machine's clock.
  bool real_time = false;

  bool operator==(const SimulatedDrive&) const = default;
};

/// Reads the parts, of which each may be left out; `drive` keeps what it has for those. Rates are
/// bytes per second as parse_bytes() reads them, above 0; a latency without a unit is microseconds.
Refusal read_drive(std::string_view parts, SimulatedDrive& drive);

}  // namespace penstock::bench
