#include "swap/engine/overflow_account.h"

#include "swap/plan/placement.h"

namespace penstock {

void OverflowAccount::count(Block& block, OverflowUse use) noexcept {
  if (!block.overflows()) {
    return;
  }
  const auto counter = [this](OverflowUse of) -> std::uint64_t* {
    return of == OverflowUse::kAhead    ? &ahead_bytes_
           : of == OverflowUse::kBehind ? &behind_bytes_
                                        : nullptr;
  };
  if (std::uint64_t* const before = counter(block.counted_as)) {
    *before -= block.buffer.capacity();
  }
  if (std::uint64_t* const after = counter(use)) {
    *after += block.buffer.capacity();
  }
  block.counted_as = use;
}

std::uint64_t OverflowAccount::kept_room(std::uint64_t used, std::uint64_t limit) const noexcept {
  return std::min(chosen(limit), held_max_ - std::min(held_max_, used));
}

RecyclingSource::Limits OverflowAccount::retained(std::uint64_t limit) const noexcept {
  return {.retained_bytes = chosen(limit), .total_bytes = held_max_};
}

/// What may be kept by choice, beside what is read ahead.
std::uint64_t OverflowAccount::chosen(std::uint64_t limit) const noexcept {
  const std::uint64_t most = std::min({std::max(held_max_ / 2, content_max_), held_max_, limit});
  return most - std::min(most, ahead_bytes_);
}

bool OverflowAccount::should_wait_for_writes(std::uint64_t used,
                                             std::uint64_t bytes) const noexcept {
  const std::uint64_t allowed = std::max(held_max_, held(used) + bytes) + kWriteBackSlackBytes;
  return behind_bytes_ > 0 && used + bytes > allowed;
}

}  // namespace penstock
