#include "swap/store/checksum.h"

#include <algorithm>

// Header-only use: no shared library to find at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kLinesAhead = 8;  // misses in flight at once hide most of the memory latency

/// The line of a page to look at: neighbours differ, all 64 lines come up.
constexpr std::size_t line_offset(std::size_t page) {
  return page * kPageBytes + (page * 29 % (kPageBytes / kLineBytes)) * kLineBytes;
}

std::uint64_t sampled(std::span<const std::byte> bytes) {
  std::uint64_t hash = bytes.size();
  const std::size_t pages = bytes.size() / kPageBytes;
  for (std::size_t page = 0; page < pages; ++page) {
    if (page + kLinesAhead < pages) {
      __builtin_prefetch(bytes.data() + line_offset(page + kLinesAhead));
    }
    hash = XXH3_64bits_withSeed(bytes.data() + line_offset(page), kLineBytes, hash);
  }
  const std::span<const std::byte> rest = bytes.subspan(pages * kPageBytes);
  return XXH3_64bits_withSeed(rest.data(), std::min(rest.size(), kPageBytes), hash);
}

}  // namespace

std::uint64_t checksum(IntegrityLevel level, std::span<const std::byte> bytes) {
  switch (level) {
    case IntegrityLevel::kOff:
      return 0;
    case IntegrityLevel::kSampled:
      return sampled(bytes);
    case IntegrityLevel::kFull:
      return XXH3_64bits(bytes.data(), bytes.size());
  }
  return 0;
}

}  // namespace penstock
