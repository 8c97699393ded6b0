#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace penstock {

/// The bytes of one version of one tensor: a sequence that no other tensor or version has anywhere.
class TensorContent {
 public:
  TensorContent(std::uint64_t tensor, std::uint64_t version)
      : seed_(mixed(tensor * 0x9e3779b97f4a7c15 + version)) {}

  void fill(std::span<std::byte> target) const {
    for_each_word(target.size(), [&](std::size_t at, std::size_t bytes, std::uint64_t word) {
      std::memcpy(target.data() + at, &word, bytes);
      return true;
    });
  }

  bool equals(std::span<const std::byte> bytes) const {
    return for_each_word(bytes.size(), [&](std::size_t at, std::size_t length, std::uint64_t word) {
      return std::memcmp(bytes.data() + at, &word, length) == 0;
    });
  }

 private:
  static std::uint64_t mixed(std::uint64_t x) {  // splitmix64's last step
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  template <class Visit>
  bool for_each_word(std::size_t bytes, Visit visit) const {
    for (std::size_t at = 0; at < bytes; at += 8) {
      if (!visit(at, std::min<std::size_t>(8, bytes - at), mixed(seed_ + at))) {
        return false;
      }
    }
    return true;
  }

  std::uint64_t seed_;
};

}  // namespace penstock
