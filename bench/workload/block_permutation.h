#pragma once

#include <array>
#include <cstdint>

namespace penstock::bench {

/// The numbers 0 .. count - 1 in an order that a seed decides, each once, without a list of them: a
/// Feistel network over the next power of four, walked on where it leaves the range.
class BlockPermutation {
 public:
  /// `count` > 0.
  BlockPermutation(std::uint64_t count, std::uint64_t seed);

  std::uint64_t count() const noexcept { return count_; }
  /// The number at `place`, which is below count().
  std::uint64_t at(std::uint64_t place) const noexcept;

 private:
  std::uint64_t scrambled(std::uint64_t value) const noexcept;

  std::uint64_t count_;
  std::uint32_t half_bits_ = 1;
  std::array<std::uint64_t, 4> keys_{};
};

}  // namespace penstock::bench
