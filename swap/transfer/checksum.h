#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "swap/plan/integrity_level.h"

namespace penstock {

/// XXH3 (64 bits) of what the level looks at: nothing (0) for kOff; one cache line of every 4 KiB
/// for kSampled, a different one in neighbouring pages, so that a block that is stale, torn or
/// misplaced shows for about a tenth of the cost; every byte for kFull. Not cryptographic. Pure,
/// thread-safe.
std::uint64_t checksum(IntegrityLevel level, std::span<const std::byte> bytes);

/// The same of bytes that come in parts. Allocates nothing.
class ChecksumStream {
 public:
  /// `total_bytes`: of all parts together.
  ChecksumStream(IntegrityLevel level, std::uint64_t total_bytes);

  /// Parts of any size for kFull and kOff; for kSampled all but the last are whole 4 KiB.
  void update(std::span<const std::byte> part);
  /// Once, after the last part.
  std::uint64_t finish();

 private:
  static constexpr std::size_t kStateBytes = 576;  // of xxhash's XXH3_state_t

  IntegrityLevel level_;
  alignas(64) std::array<std::byte, kStateBytes> full_;  // kFull
  std::uint64_t sampled_;                                // kSampled
  std::size_t pages_ = 0;                                // whole ones, so far
  bool ended_ = false;                                   // a part was no whole number of pages
};

}  // namespace penstock
