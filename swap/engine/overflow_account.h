#pragma once

#include <algorithm>
#include <cstdint>

#include "alloc/recycling_source.h"
#include "swap/engine/block.h"

namespace penstock {

/// Pageable memory beyond the pool's slots, by what it is used for, and the most of it that callers
/// ever held at once (an optimizer's step): that much the process has had, so reading ahead,
/// writing behind and pages kept for the next request stay within it. Pure bookkeeping; guarded by
/// the engine's lock.
class OverflowAccount {
 public:
  /// The block is used otherwise from here on. Nothing happens where it is not pageable.
  void count(Block& block, OverflowUse use) noexcept PENSTOCK_NEEDS_LOCK;
  /// Callers hold a content of so many bytes in pageable memory.
  void note_content(std::uint64_t bytes) noexcept { content_max_ = std::max(content_max_, bytes); }
  /// `used` are the pageable bytes in use now, whatever for.
  void note_peak(std::uint64_t used) noexcept { held_max_ = std::max(held_max_, held(used)); }
  /// What comes next may be far smaller.
  void forget_peaks() noexcept { held_max_ = content_max_ = 0; }

  /// Pageable bytes that may be kept by choice now: read ahead, or freed and waiting for the next
  /// request, `limit` at most. The most that callers ever held is never exceeded, and half of it is
  /// left to the runtime, whose own peak (the end of backward) comes when callers hold next to
  /// nothing here. One content may always be kept.
  std::uint64_t kept_room(std::uint64_t used, std::uint64_t limit) const noexcept;
  /// The same for the source of pageable memory, which knows itself what is used.
  RecyclingSource::Limits retained(std::uint64_t limit) const noexcept;
  /// Whether `bytes` more would take more memory than callers' own peak asks for, while writes are
  /// in flight that give some back.
  bool should_wait_for_writes(std::uint64_t used, std::uint64_t bytes) const noexcept;

 private:
  std::uint64_t chosen(std::uint64_t limit) const noexcept;
  std::uint64_t held(std::uint64_t used) const noexcept {
    return used - std::min(used, ahead_bytes_ + behind_bytes_);
  }

  std::uint64_t ahead_bytes_ = 0;   // read ahead and not used yet
  std::uint64_t behind_bytes_ = 0;  // that only a write in flight holds
  std::uint64_t held_max_ = 0;      // most that callers ever held at once
  std::uint64_t content_max_ = 0;   // the largest content among them
};

}  // namespace penstock
