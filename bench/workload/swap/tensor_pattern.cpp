#include "bench/workload/swap/tensor_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

Result<void> TensorPattern::check(std::span<const std::byte> bytes, std::string_view what) const {
  const std::optional<std::uint64_t> wrong = first_difference(bytes);
  if (!wrong) {
    return {};
  }
  return Error{{EILSEQ, std::generic_category()},  // as fio's verify= has it
               fmt::format("{} ({}) came back with another byte at {} than was written", what,
                           format_bytes(bytes.size()), *wrong),
               {},
               {}};
}

std::optional<std::uint64_t> TensorPattern::first_difference(
    std::span<const std::byte> bytes) const {
  std::array<std::byte, kBlockBytes> expected;
  for (std::uint64_t at = 0; at < bytes.size(); at += kBlockBytes) {
    const std::span<const std::byte> block =
        bytes.subspan(at, std::min<std::uint64_t>(kBlockBytes, bytes.size() - at));
    fill_block(expected, word(at / kBlockBytes));
    if (std::memcmp(block.data(), expected.data(), block.size()) != 0) {
      const auto wrong = std::ranges::mismatch(block, expected).in1;
      return at + static_cast<std::uint64_t>(wrong - block.begin());
    }
  }
  return std::nullopt;
}

}  // namespace penstock::bench
