#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace penstock {

// In the sanitizers' builds tests are neither optimized nor let alone word by word: most of their
// time would be spent here.
#if defined(__GNUC__) && !defined(__clang__)
[[gnu::optimize("O2"), gnu::no_sanitize("thread", "address")]]
#endif
inline std::uint64_t random_words(std::uint64_t* words, std::size_t count, std::uint64_t state) {
  for (std::size_t i = 0; i < count; ++i) {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t word = state;
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    words[i] = word ^ (word >> 31U);
  }
  return state;
}

/// Fills memory with bytes that only `seed` tells. The words are SplitMix64's (Steele, Lea, Flood:
/// Fast Splittable Pseudorandom Number Generators, 2014).
inline void fill_random(std::span<std::byte> memory, std::uint64_t seed) {
  std::uint64_t words[512];
  std::uint64_t state = seed;
  for (std::size_t at = 0; at < memory.size(); at += sizeof(words)) {
    const std::size_t bytes = std::min(sizeof(words), memory.size() - at);
    state = random_words(words, (bytes + sizeof(words[0]) - 1) / sizeof(words[0]), state);
    std::memcpy(memory.data() + at, words, bytes);  // here the sanitizers see what is written
  }
}

inline std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> bytes(count);
  fill_random(bytes, seed);
  return bytes;
}

}  // namespace penstock
