#include "bench/workload/block_permutation.h"

#include "alloc/check.h"
#include "bench/workload/random_numbers.h"

namespace penstock::bench {

BlockPermutation::BlockPermutation(std::uint64_t count, std::uint64_t seed) : count_(count) {
  PENSTOCK_CHECK(count != 0 && count <= std::uint64_t{1} << 62U, "a permutation of {}", count);
  while (std::uint64_t{1} << (2 * half_bits_) < count) {
    ++half_bits_;
  }
  RandomNumbers random(seed);
  for (std::uint64_t& key : keys_) {
    key = random.next();
  }
}

std::uint64_t BlockPermutation::at(std::uint64_t place) const noexcept {
  std::uint64_t value = scrambled(place);
  while (value >= count_) {
    value = scrambled(value);  // ends: a permutation's cycle comes back into the range
  }
  return value;
}

std::uint64_t BlockPermutation::scrambled(std::uint64_t value) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t next = left ^ (mixed(right ^ key) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

}  // namespace penstock::bench
