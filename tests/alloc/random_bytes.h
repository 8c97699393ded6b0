#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace penstock {

/// Fills memory with bytes that only `seed` tells, a word at a time: the sanitizers' builds of
/// tests are not optimized, and spend most of their time here. The words are SplitMix64's (Steele,
/// Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
inline void fill_random(std::span<std::byte> memory, std::uint64_t seed) {
  std::uint64_t state = seed;
  for (std::size_t at = 0; at < memory.size();) {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t word = state;
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    word ^= word >> 31U;
    const std::size_t bytes = std::min(sizeof(word), memory.size() - at);
    std::memcpy(memory.data() + at, &word, bytes);
    at += bytes;
  }
}

inline std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> bytes(count);
  fill_random(bytes, seed);
  return bytes;
}

}  // namespace penstock
