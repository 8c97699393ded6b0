#pragma once

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
    std::size_t at = 0;
    for (; at + kWord <= target.size(); at += kWord) {
      const std::uint64_t word = word_at(at);
      std::memcpy(target.data() + at, &word, kWord);
    }
    const std::uint64_t last = word_at(at);
    std::memcpy(target.data() + at, &last, target.size() - at);
  }

  bool equals(std::span<const std::byte> bytes) const {
    std::size_t at = 0;
    for (; at + kWord <= bytes.size(); at += kWord) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, kWord);
      if (word != word_at(at)) {
        return false;
      }
    }
    const std::uint64_t last = word_at(at);
    return std::memcmp(bytes.data() + at, &last, bytes.size() - at) == 0;
  }

 private:
  static constexpr std::size_t kWord = sizeof(std::uint64_t);

  static std::uint64_t mixed(std::uint64_t x) {  // splitmix64's last step
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  std::uint64_t word_at(std::size_t at) const { return mixed(seed_ + at); }

  std::uint64_t seed_;
};

}  // namespace penstock
