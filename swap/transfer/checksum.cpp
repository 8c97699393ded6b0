#include "swap/transfer/checksum.h"

#include <algorithm>
#include <new>

#include "alloc/check.h"

// Header-only use: no shared library to find at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kLineBytes = 64;
// What a drive has written is in no cache: so many misses at once hide the memory's latency.
constexpr std::size_t kLinesAhead = 64;

/// The line of a page to look at: neighbours differ, all 64 lines come up.
constexpr std::size_t line_in_page(std::size_t page) {
  return (page * 29 % (kPageBytes / kLineBytes)) * kLineBytes;
}

// Goes on with `hash` over whole pages, the first of which is number `first_page`.
std::uint64_t sample_pages(std::uint64_t hash, std::size_t first_page,
                           std::span<const std::byte> bytes) {
  const std::size_t pages = bytes.size() / kPageBytes;
  const auto line = [&](std::size_t page) {
    return bytes.data() + page * kPageBytes + line_in_page(first_page + page);
  };
  for (std::size_t page = 0; page < std::min(pages, kLinesAhead); ++page) {
    __builtin_prefetch(line(page));
  }
  for (std::size_t page = 0; page < pages; ++page) {
    if (page + kLinesAhead < pages) {
      __builtin_prefetch(line(page + kLinesAhead));
    }
    hash = XXH3_64bits_withSeed(line(page), kLineBytes, hash);
  }
  return hash;
}

}  // namespace

std::uint64_t checksum(IntegrityLevel level, std::span<const std::byte> bytes) {
  switch (level) {
    case IntegrityLevel::kOff:
      return 0;
    case IntegrityLevel::kSampled: {
      const std::size_t whole = bytes.size() / kPageBytes * kPageBytes;
      const std::uint64_t hash = sample_pages(bytes.size(), 0, bytes.first(whole));
      return XXH3_64bits_withSeed(bytes.data() + whole, bytes.size() - whole, hash);
    }
    case IntegrityLevel::kFull:
      return XXH3_64bits(bytes.data(), bytes.size());
  }
  return 0;
}

namespace {

XXH3_state_t* state_in(std::array<std::byte, sizeof(XXH3_state_t)>& memory) {
  return std::launder(reinterpret_cast<XXH3_state_t*>(memory.data()));
}

}  // namespace

ChecksumStream::ChecksumStream(IntegrityLevel level, std::uint64_t total_bytes)
    : level_(level), sampled_(total_bytes) {
  static_assert(alignof(XXH3_state_t) <= 64);
  if (level == IntegrityLevel::kFull) {
    XXH3_64bits_reset(new (full_.data()) XXH3_state_t);
  }
}

void ChecksumStream::update(std::span<const std::byte> part) {
  if (level_ == IntegrityLevel::kFull) {
    XXH3_64bits_update(state_in(full_), part.data(), part.size());
    return;
  }
  if (level_ == IntegrityLevel::kOff || part.empty()) {
    return;
  }
  PENSTOCK_CHECK(!ended_, "{} bytes behind the last part", part.size());
  const std::size_t whole = part.size() / kPageBytes * kPageBytes;
  sampled_ = sample_pages(sampled_, pages_, part.first(whole));
  pages_ += whole / kPageBytes;
  if (whole < part.size()) {
    ended_ = true;
    const std::span<const std::byte> rest = part.subspan(whole);
    sampled_ = XXH3_64bits_withSeed(rest.data(), rest.size(), sampled_);
  }
}

std::uint64_t ChecksumStream::finish() {
  switch (level_) {
    case IntegrityLevel::kOff:
      return 0;
    case IntegrityLevel::kSampled:
      return ended_ ? sampled_ : XXH3_64bits_withSeed(nullptr, 0, sampled_);
    case IntegrityLevel::kFull:
      return XXH3_64bits_digest(state_in(full_));
  }
  return 0;
}

}  // namespace penstock
