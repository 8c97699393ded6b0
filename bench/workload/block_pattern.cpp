#include "bench/workload/block_pattern.h"

#include <algorithm>
#include <cstring>

#include "bench/workload/random_numbers.h"

namespace penstock::bench {
namespace {

constexpr std::uint64_t kWord = sizeof(std::uint64_t);

// Calls `visit(at, word, first, bytes)` for every word of the pattern that the block touches: its
// bytes [first, first + bytes) lie at `at` in the block. Stops where it says false. Whole words
// have a call of their own, in which the compiler knows their size.
template <class Visit>
void for_each_word(std::uint64_t key, std::uint64_t offset, std::size_t size, Visit visit) {
  std::size_t at = 0;
  if (const std::uint64_t first = offset % kWord; first != 0) {
    at = std::min<std::size_t>(kWord - first, size);
    if (!visit(std::size_t{0}, mixed(key + offset / kWord), first, at)) {
      return;
    }
  }
  for (; at + kWord <= size; at += kWord) {
    if (!visit(at, mixed(key + (offset + at) / kWord), std::uint64_t{0}, std::size_t{kWord})) {
      return;
    }
  }
  if (at < size) {
    visit(at, mixed(key + (offset + at) / kWord), std::uint64_t{0}, size - at);
  }
}

std::uint64_t key_of(std::uint64_t seed, std::uint32_t file, std::uint32_t pass) {
  return mixed(mixed(seed) ^ (static_cast<std::uint64_t>(file) << 32U | pass));
}

}  // namespace

void BlockPattern::fill(std::span<std::byte> block, std::uint32_t file, std::uint64_t offset,
                        std::uint32_t pass) const {
  for_each_word(key_of(seed_, file, pass), offset, block.size(),
                [&](std::size_t at, std::uint64_t word, std::size_t first, std::size_t bytes) {
                  std::memcpy(block.data() + at, reinterpret_cast<const char*>(&word) + first,
                              bytes);
                  return true;
                });
}

std::optional<std::uint64_t> BlockPattern::first_difference(std::span<const std::byte> block,
                                                            std::uint32_t file,
                                                            std::uint64_t offset,
                                                            std::uint32_t pass) const {
  std::optional<std::uint64_t> found;
  for_each_word(key_of(seed_, file, pass), offset, block.size(),
                [&](std::size_t at, std::uint64_t word, std::size_t first, std::size_t bytes) {
                  const auto* const want = reinterpret_cast<const std::byte*>(&word) + first;
                  const std::byte* const got = block.data() + at;
                  if (std::memcmp(got, want, bytes) == 0) {
                    return true;
                  }
                  const auto differs = std::mismatch(want, want + bytes, got).second;
                  found = offset + static_cast<std::uint64_t>(differs - block.data());
                  return false;
                });
  return found;
}

}  // namespace penstock::bench
