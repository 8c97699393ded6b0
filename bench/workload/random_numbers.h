#pragma once

#include <cstdint>

namespace penstock::bench {

/// Spreads `value` over all 64 bits (the finisher of SplitMix64): equal in, equal out.
constexpr std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111eb;
  return value ^ (value >> 31U);
}

/// The same numbers for the same seed on every machine, which the standard's distributions do not
/// promise.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : state_(mixed(seed)) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    return mixed(state_);
  }
  /// 0 .. bound - 1, `bound` below 2^32.
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32U) * bound) >> 32U);
  }

 private:
  std::uint64_t state_;
};

}  // namespace penstock::bench
