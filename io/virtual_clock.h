#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "io/io_op.h"

namespace penstock {

/// The time of a simulation: it stands still until a caller advances it. A wait for a drive jumps
/// to the next event; a computation says how long it takes, and its end is the horizon that no jump
/// passes. One thread.
class VirtualClock {
 public:
  static constexpr std::uint64_t kNoHorizon = ~std::uint64_t{0};

  std::uint64_t now_ns() const noexcept { return now_ns_; }
  IoOp::TimePoint now() const noexcept {
    return IoOp::TimePoint(std::chrono::nanoseconds(static_cast<std::int64_t>(now_ns_)));
  }

  /// To `ns`, or to the horizon if that comes first. Never back.
  void jump_to(std::uint64_t ns) noexcept {
    now_ns_ = std::max(now_ns_, std::min(ns, horizon_ns_));
  }
  void set_horizon_ns(std::uint64_t ns) noexcept { horizon_ns_ = ns; }

 private:
  std::uint64_t now_ns_ = 0;
  std::uint64_t horizon_ns_ = kNoHorizon;
};

}  // namespace penstock
