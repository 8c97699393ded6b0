#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "alloc/result.h"

namespace penstock::bench {

/// The bytes of one version of one tensor: each block of 4 KiB repeats one 64-bit word, which no
/// other block of any tensor or version has. A content that is stale, foreign, torn or shifted
/// shows in every block, and a VirtualDrive keeps 16 bytes of each.
class TensorPattern {
 public:
  TensorPattern(std::uint64_t tensor, std::uint64_t version);

  void fill(std::span<std::byte> target) const;
  /// Compares every byte of what came back. The error names the tensor as `what` does, and where
  /// the first other byte is.
  Result<void> check(std::span<const std::byte> bytes, std::string_view what) const;
  std::optional<std::uint64_t> first_difference(std::span<const std::byte> bytes) const;

 private:
  std::uint64_t word(std::uint64_t block) const;

  std::uint64_t seed_;
};

}  // namespace penstock::bench
