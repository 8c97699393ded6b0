#include "bench/workload/swap/tensor_pattern.h"

#include <algorithm>
#include <cstring>

#include "alloc/bytes.h"
#include "bench/workload/mixed.h"

namespace penstock::bench {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

void fill_block(std::span<std::byte> block, std::uint64_t word) {
  std::size_t at = 0;
  for (; at + kWordBytes <= block.size(); at += kWordBytes) {
    std::memcpy(block.data() + at, &word, kWordBytes);
  }
  std::memcpy(block.data() + at, &word, block.size() - at);
}

bool holds(std::span<const std::byte> block, std::uint64_t word) {
  std::uint64_t differences = 0;
  std::size_t at = 0;
  for (; at + kWordBytes <= block.size(); at += kWordBytes) {
    std::uint64_t found = 0;
    std::memcpy(&found, block.data() + at, kWordBytes);
    differences |= found ^ word;
  }
  return differences == 0 && std::memcmp(block.data() + at, &word, block.size() - at) == 0;
}

}  // namespace

TensorPattern::TensorPattern(std::uint64_t tensor, std::uint64_t version)
    : seed_(mixed(mixed(tensor + 1) + version)) {}

std::uint64_t TensorPattern::word(std::uint64_t block) const {
  return mixed(seed_ + block);
}

void TensorPattern::fill(std::span<std::byte> target) const {
  for (std::uint64_t at = 0; at < target.size(); at += kBlockBytes) {
    const std::uint64_t bytes = std::min<std::uint64_t>(kBlockBytes, target.size() - at);
    fill_block(target.subspan(at, bytes), word(at / kBlockBytes));
  }
}

std::optional<std::uint64_t> TensorPattern::first_difference(
    std::span<const std::byte> bytes) const {
  for (std::uint64_t at = 0; at < bytes.size(); at += kBlockBytes) {
    const std::span<const std::byte> block =
        bytes.subspan(at, std::min<std::uint64_t>(kBlockBytes, bytes.size() - at));
    const std::uint64_t expected = word(at / kBlockBytes);
    if (!holds(block, expected)) {
      std::uint64_t in_block = 0;
      while (in_block < block.size() &&
             std::memcmp(&block[in_block],
                         reinterpret_cast<const std::byte*>(&expected) + in_block % kWordBytes,
                         1) == 0) {
        ++in_block;
      }
      return at + in_block;
    }
  }
  return std::nullopt;
}

}  // namespace penstock::bench
