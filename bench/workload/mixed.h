#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace penstock::bench {

/// Spreads `value` over all 64 bits (the finisher of SplitMix64): equal in, equal out.
constexpr std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111eb;
  return value ^ (value >> 31U);
}

/// Contents that no drive can compress. A part of a word at the end stays as it is.
inline void fill_with_noise(std::span<std::byte> memory, std::uint64_t seed) {
  for (std::size_t at = 0; at + sizeof(seed) <= memory.size(); at += sizeof(seed)) {
    const std::uint64_t word = mixed(seed + at);
    std::memcpy(memory.data() + at, &word, sizeof(word));
  }
}

}  // namespace penstock::bench
