#pragma once

#include <cstdint>

#include "io/io_op.h"

namespace penstock {

/// How fast a drive is that is not a real one.
struct DriveRates {
  std::uint64_t read_bytes_per_second = 0;
  std::uint64_t write_bytes_per_second = 0;
  std::uint64_t latency_ns = 0;  ///< of each request, beside its transfer

  bool operator==(const DriveRates&) const = default;
};

/// When the requests to such a drive are done. It has one bandwidth for both directions: requests
/// are served one after the other, as issued, each for as long as its bytes take at its
/// direction's rate, and done one latency later; latencies overlap. So reads alone reach the read
/// rate, writes alone the write rate, and a mix what its proportion makes of both, as flash does
/// that is busy with either; and it takes latency x rate bytes in flight to keep it busy. Pure; not
/// thread-safe.
class DriveSchedule {
 public:
  explicit DriveSchedule(const DriveRates& rates) : rates_(rates) {}

  /// A request is issued at `now_ns`; returns when it is done. Times are of any clock, and `now_ns`
  /// never goes back, so that what is returned does not either.
  std::uint64_t done_at(std::uint64_t now_ns, IoKind kind, std::uint64_t bytes);

 private:
  DriveRates rates_;
  std::uint64_t free_at_ns_ = 0;
};

}  // namespace penstock
