#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "swap/plan/integrity_level.h"

namespace penstock {

/// XXH3 (64 bits) of what the level looks at: nothing (0) for kOff; one cache line of every 4 KiB
/// for kSampled, a different one in neighbouring pages, so that a block that is stale, torn or
/// misplaced shows for about a tenth of the cost; every byte for kFull. Not cryptographic. Pure,
/// thread-safe.
std::uint64_t checksum(IntegrityLevel level, std::span<const std::byte> bytes);

/// The same of bytes that come in parts.
class ChecksumStream {
 public:
  /// `total_bytes`: of all parts together.
  ChecksumStream(IntegrityLevel level, std::uint64_t total_bytes);
  ~ChecksumStream();
  ChecksumStream(ChecksumStream&&) noexcept;
  ChecksumStream& operator=(ChecksumStream&&) noexcept;

  /// Parts of any size for kFull and kOff; for kSampled all but the last are whole 4 KiB.
  void update(std::span<const std::byte> part);
  /// Once, after the last part.
  std::uint64_t finish();

 private:
  struct State;
  IntegrityLevel level_;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
