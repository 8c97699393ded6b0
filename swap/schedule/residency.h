#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace penstock {

/// Who may stay in RAM within a byte budget. Pure bookkeeping; not thread-safe.
/// Invariant: held_bytes() is the sum over all claims; it exceeds limit_bytes() only by claims of
/// kRule while those whose place they take are still being written out.
class Residency {
 public:
  using Key = std::uint64_t;
  /// Why a tensor stays, weakest first: a stronger claim may push out weaker ones.
  enum class Claim : std::uint8_t {
    kSpare,  ///< there was room before a plan existed
    kPlan,   ///< the plan chose it
    kRule,   ///< the user's rule says so
  };

  explicit Residency(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Claims room, or strengthens a claim that exists. False (and nothing changes) if there is no
  /// room.
  bool claim(Key key, std::uint64_t bytes, Claim claim);
  void release(Key key);
  bool holds(Key key) const { return claims_.contains(key); }

  /// Weaker claims than `claim`, latest first, whose release makes room for `bytes`; empty if even
  /// all of them would not do, or none is needed.
  std::vector<Key> victims(std::uint64_t bytes, Claim claim) const;

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
  std::map<Key, Held> claims_;  // keys grow with time, so the last ones came latest
};

}  // namespace penstock
