#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace penstock::bench {

/// Contents that can be told from any other: each byte depends on the seed, the file, the place in
/// it and the pass that wrote it. Any part of what was written can be checked by itself.
class BlockPattern {
 public:
  explicit BlockPattern(std::uint64_t seed) : seed_(seed) {}

  /// What belongs at `offset` of file number `file` after `pass`.
  void fill(std::span<std::byte> block, std::uint32_t file, std::uint64_t offset,
            std::uint32_t pass) const;
  /// Compares every byte; the offset in the file of the first that is another one.
  std::optional<std::uint64_t> first_difference(std::span<const std::byte> block,
                                                std::uint32_t file, std::uint64_t offset,
                                                std::uint32_t pass) const;

 private:
  std::uint64_t seed_;
};

}  // namespace penstock::bench
