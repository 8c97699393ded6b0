#pragma once

#include <algorithm>
#include <cstdint>

#include "alloc/bytes.h"

namespace penstock {

/// Chunks through which contents pass that cannot be moved where they lie. All shapes are decided
/// here.
struct ChunkShape {
  std::uint64_t chunk_bytes = 0;  ///< a multiple of 4 KiB
  std::uint32_t chunks = 0;

  constexpr std::uint64_t bytes() const noexcept { return chunk_bytes * chunks; }
};

/// Of one transfer between a drive and the caller's unaligned memory: slots of the pool, part of
/// max_pinned_bytes as soon as anything lies on a drive.
inline constexpr ChunkShape kHostChunks{kMiB, 4};

/// Of files that are read or written in order.
inline constexpr ChunkShape kStreamChunks{kMiB, 16};

inline constexpr std::uint64_t kDeviceShare = 4;  ///< of max_pinned_bytes, one part
inline constexpr std::uint32_t kDeviceChunks = 16;
/// The least for one device: chunks that carry a block and the identity behind it.
inline constexpr std::uint64_t kLeastDeviceBytes = kDeviceChunks * 2 * kBlockBytes;

/// Of each of so many devices: together a quarter of max_pinned_bytes, which leaves the rest to
/// slots, and 32 MiB at most, with which drive and device are both busy. Where the rest would not
/// hold kHostChunks, devices have less, as long as that works.
constexpr ChunkShape device_chunks(std::uint64_t max_pinned_bytes, std::uint64_t devices) noexcept {
  std::uint64_t whole = std::min(32 * kMiB, max_pinned_bytes / kDeviceShare);
  if (max_pinned_bytes >= kHostChunks.bytes() + kLeastDeviceBytes * devices) {
    whole = std::min(whole, max_pinned_bytes - kHostChunks.bytes());
  }
  const std::uint64_t each = devices == 0 ? 0 : whole / devices;
  return {align_down(each / kDeviceChunks, kBlockBytes), kDeviceChunks};
}

/// What max_pinned_bytes must be at least with so many devices.
constexpr std::uint64_t pinned_bytes_for_devices(std::uint64_t devices) noexcept {
  return kDeviceShare * kLeastDeviceBytes * devices;
}

}  // namespace penstock
