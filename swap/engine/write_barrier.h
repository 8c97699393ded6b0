#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "alloc/check.h"

namespace penstock {

/// Counts writes in flight in two halves, so that a flush waits for those before it alone: new ones
/// go to the other half, which is empty when a flush begins. One flush at a time. Guarded by the
/// engine's lock.
class WriteBarrier {
 public:
  using Half = std::optional<std::size_t>;

  /// Of a write that begins again: in the half where it was.
  void begin(Half& half) noexcept { ++in_flight_[half ? *half : half.emplace(open_)]; }
  void end(const Half& half) noexcept {
    PENSTOCK_CHECK(half && in_flight_[*half] > 0, "a write ended that had not begun");
    --in_flight_[*half];
  }

  bool is_flushing() const noexcept { return is_flushing_; }
  void begin_flush() noexcept {
    PENSTOCK_CHECK(!is_flushing_, "a flush began beside another");
    is_flushing_ = true;
    open_ = 1 - open_;
  }
  bool has_flushed() const noexcept { return in_flight_[1 - open_] == 0; }
  void end_flush() noexcept { is_flushing_ = false; }

 private:
  std::array<std::uint64_t, 2> in_flight_{};
  std::size_t open_ = 0;  ///< the half of new writes
  bool is_flushing_ = false;
};

}  // namespace penstock
