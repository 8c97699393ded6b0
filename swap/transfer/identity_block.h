#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace penstock {

/// What lies behind every tensor's bytes on a drive, so that a read can tell whose bytes it got.
/// One 4 KiB block: an SSD writes no less, and it stands in the same extent as the data.
struct IdentityBlock {
  static constexpr std::uint64_t kMagic = 0x314b434f54534e50;  // "PNSTOCK1", little-endian
  static constexpr std::uint64_t kBytes = 4096;

  std::uint64_t magic = kMagic;
  std::uint64_t store = 0;  ///< random number of the store's opening
  std::uint64_t tensor = 0;
  std::uint64_t generation = 0;
  std::uint64_t bytes = 0;  ///< of the tensor, without padding
  std::uint64_t level = 0;  ///< IntegrityLevel of `checksum`
  std::uint64_t checksum = 0;

  bool operator==(const IdentityBlock&) const = default;

  /// Writes the block: the fields, their own hash, zeros up to 4 KiB.
  void encode(std::span<std::byte> block) const;
  /// Empty if `block` says exactly this; else what differs, for an error ("generation 7 instead of
  /// 9").
  std::string difference(std::span<const std::byte> block) const;
};

}  // namespace penstock
