#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "swap/schedule/tensor_id.h"

namespace penstock {

/// Who may stay in RAM within a byte budget. Pure bookkeeping; not thread-safe.
/// Invariant: held_bytes() is the sum over all claims; it exceeds limit_bytes() only by claims of
/// kRule while those whose place they take are still being written out.
class Residency {
 public:
  /// Why a tensor stays, weakest first: a stronger claim may push out weaker ones.
  enum class Claim : std::uint8_t {
    kSpare,  ///< there was room before a plan existed
    kPlan,   ///< the plan chose it
    kRule,   ///< the user's rule says so
  };

  explicit Residency(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Claims room, or strengthens a claim that exists. False (and nothing changes) if there is no
  /// room.
  bool claim(TensorId tensor, std::uint64_t bytes, Claim claim);
  void release(TensorId tensor);
  bool holds(TensorId tensor) const { return claims_.contains(tensor); }

  /// Weaker claims than `claim`, latest first, whose release makes room for `bytes`; empty if even
  /// all of them would not do, or none is needed.
  std::vector<TensorId> victims(std::uint64_t bytes, Claim claim) const;

  std::uint64_t held_bytes() const noexcept { return held_bytes_; }
  std::uint64_t limit_bytes() const noexcept { return limit_bytes_; }
  void set_limit_bytes(std::uint64_t bytes) noexcept { limit_bytes_ = bytes; }
  std::uint64_t room_bytes() const noexcept {
    return limit_bytes_ > held_bytes_ ? limit_bytes_ - held_bytes_ : 0;
  }

 private:
  struct Held {
    std::uint64_t bytes;
    Claim claim;
  };
  std::uint64_t limit_bytes_;
  std::uint64_t held_bytes_ = 0;
  std::map<TensorId, Held> claims_;  // ids grow with time, so the last ones came latest
};

}  // namespace penstock
