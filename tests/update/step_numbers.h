#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace penstock {

/// Numbers that a script in Python makes to the same bits.
inline float fraction(std::size_t number, std::size_t modulus, int middle, float divisor) {
  return static_cast<float>(static_cast<int>(number % modulus) - middle) / divisor;
}

/// FNV-1a over 32-bit words.
inline std::uint64_t hash_of_bits(std::initializer_list<const std::vector<float>*> states) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::vector<float>* values : states) {
    for (const float value : *values) {
      hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
    }
  }
  return hash;
}

}  // namespace penstock
