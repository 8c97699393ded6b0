#include "swap/store/checksum.h"

#include <algorithm>

#include "alloc/check.h"

// Header-only use: no shared library to find at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kLinesAhead = 8;  // misses in flight at once hide most of the memory latency

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

struct ChecksumStream::State {
  XXH3_state_t full;          // kFull
  std::uint64_t sampled = 0;  // kSampled
  std::size_t pages = 0;      // whole ones, so far
  bool ended = false;         // a part was no whole number of pages
};

ChecksumStream::ChecksumStream(IntegrityLevel level, std::uint64_t total_bytes)
    : level_(level), state_(std::make_unique<State>()) {
  state_->sampled = total_bytes;
  XXH3_64bits_reset(&state_->full);
}
ChecksumStream::~ChecksumStream() = default;
ChecksumStream::ChecksumStream(ChecksumStream&&) noexcept = default;
ChecksumStream& ChecksumStream::operator=(ChecksumStream&&) noexcept = default;

void ChecksumStream::update(std::span<const std::byte> part) {
  if (level_ == IntegrityLevel::kFull) {
    XXH3_64bits_update(&state_->full, part.data(), part.size());
    return;
  }
  if (level_ == IntegrityLevel::kOff || part.empty()) {
    return;
  }
  PENSTOCK_CHECK(!state_->ended, "{} bytes behind the last part", part.size());
  const std::size_t whole = part.size() / kPageBytes * kPageBytes;
  state_->sampled = sample_pages(state_->sampled, state_->pages, part.first(whole));
  state_->pages += whole / kPageBytes;
  if (whole < part.size()) {
    state_->ended = true;
    const std::span<const std::byte> rest = part.subspan(whole);
    state_->sampled = XXH3_64bits_withSeed(rest.data(), rest.size(), state_->sampled);
  }
}

std::uint64_t ChecksumStream::finish() {
  switch (level_) {
    case IntegrityLevel::kOff:
      return 0;
    case IntegrityLevel::kSampled:
      return state_->ended ? state_->sampled : XXH3_64bits_withSeed(nullptr, 0, state_->sampled);
    case IntegrityLevel::kFull:
      return XXH3_64bits_digest(&state_->full);
  }
  return 0;
}

}  // namespace penstock
