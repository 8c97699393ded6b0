#include "alloc/buffer_pool_state.h"

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/size_class.h"

namespace penstock {
BufferPoolState::BufferPoolState(BufferPoolOptions pool_options)
    : options_(std::move(pool_options)),
      waiting_(options_.waiting ? options_.waiting : std::make_shared<Waiting>()) {}

BufferSlot* BufferPoolState::take_free(std::uint64_t bytes) {
  const Lock lock(mutex_);
  BufferSlot* slot = pop_free(lock, bytes);
  if (slot != nullptr) {
    count_lease(lock, *slot, bytes);
  }
  return slot;
}

BufferSlot* BufferPoolState::take_free_or_wait(std::uint64_t bytes) {
  Lock lock(mutex_);
  BufferSlot* slot = pop_free(lock, bytes);
  if (slot == nullptr && !stopped_ && return_expected(lock, bytes)) {
    ++stats_.waits;
    Waiter waiter;
    waiter.bytes = bytes;
    waiters_.push_back(&waiter);
    waiting_->wait(lock, waiter.wake, [&] {
      return waiter.granted != nullptr || stopped_ || !return_expected(lock, bytes);
    });
    slot = waiter.granted;
    if (slot == nullptr) {
      waiters_.remove(&waiter);
    }
  }
  if (slot != nullptr) {
    count_lease(lock, *slot, bytes);
  }
  return slot;
}

bool BufferPoolState::would_wait(std::uint64_t bytes) {
  const Lock lock(mutex_);
  const bool has_free = std::ranges::any_of(fitting_classes(lock, bytes),
                                            [](const SlotClass& c) { return c.free != nullptr; });
  return !has_free && !stopped_ && return_expected(lock, bytes);
}

Buffer BufferPoolState::lease(std::shared_ptr<BufferPoolState> state, BufferSlot& slot,
                              std::uint64_t bytes) noexcept {
  Buffer buffer;
  buffer.state_ = std::move(state);
  buffer.slot_ = &slot;
  buffer.data_ = slot.data;
  buffer.bytes_ = bytes;
  buffer.capacity_ =
      slot.arena->kind == BufferKind::kSlot ? slot.arena->slot_bytes : slot.arena->memory.bytes();
  buffer.kind_ = slot.arena->kind;
  return buffer;
}

void BufferPoolState::give_back(BufferSlot& slot, std::uint64_t bytes) noexcept {
  bool is_watched = false;
  {
    Arenas idle;  // freed without the lock
    const Lock lock(mutex_);
    BufferArena& arena = *slot.arena;
    (arena.kind == BufferKind::kOverflow ? stats_.overflow_bytes : stats_.slot_bytes_live) -= bytes;
    const bool was_expected = slot.returning;
    mark_returning(lock, slot, false);
    slot.lent = false;
    --arena.lent;
    if (arena.class_index != BufferArena::kRetired) {
      push_free(lock, slot);
      serve_waiters(lock);
    } else if (arena.lent == 0) {
      take_out(lock, arena, idle);
    }
    if (was_expected) {
      wake_without_return(lock);  // others may have counted on this very slot
    }
    is_watched = std::exchange(watched_, false);
  }
  report_change(is_watched);
}

void BufferPoolState::set_returning(BufferSlot& slot, bool returning) noexcept {
  bool is_watched = false;
  {
    const Lock lock(mutex_);
    mark_returning(lock, slot, returning);
    if (!returning) {
      wake_without_return(lock);
      is_watched = std::exchange(watched_, false);
    }
  }
  report_change(is_watched);
}

void BufferPoolState::watch() {
  const Lock lock(mutex_);
  watched_ = true;
}

void BufferPoolState::report_change(bool is_watched) const noexcept {
  if (is_watched && options_.changed) {
    options_.changed();
  }
}

void BufferPoolState::count_lease(const Lock& /*lock*/, const BufferSlot& slot,
                                  std::uint64_t bytes) noexcept {
  if (slot.arena->kind == BufferKind::kOverflow) {
    ++stats_.overflows;
    stats_.overflow_bytes += bytes;
    stats_.overflow_bytes_max = std::max(stats_.overflow_bytes_max, stats_.overflow_bytes);
  } else {
    stats_.slot_bytes_live += bytes;
    stats_.slot_bytes_live_max = std::max(stats_.slot_bytes_live_max, stats_.slot_bytes_live);
  }
}

// --- Free slots and those who wait for them -----------------------------------------------------

std::span<BufferPoolState::SlotClass> BufferPoolState::fitting_classes(
    const Lock& /*lock*/, std::uint64_t bytes) noexcept {
  if (classes_.empty() || bytes == 0 || bytes > classes_.back().slot_bytes) {
    return {};
  }
  const std::uint64_t needed_bytes = align_up(bytes, kBlockBytes);
  const auto first = std::ranges::lower_bound(classes_, needed_bytes, {}, &SlotClass::slot_bytes);
  auto last = first;
  while (last != classes_.end() && serves(last->slot_bytes, needed_bytes)) {
    ++last;
  }
  return {first, last};
}

BufferSlot* BufferPoolState::pop_free(const Lock& lock, std::uint64_t bytes) noexcept {
  for (SlotClass& slot_class : fitting_classes(lock, bytes)) {
    if (BufferSlot* slot = slot_class.free; slot != nullptr) {
      slot_class.free = slot->next_free;
      slot->next_free = nullptr;
      slot->lent = true;
      ++slot->arena->lent;
      return slot;
    }
  }
  return nullptr;
}

void BufferPoolState::push_free(const Lock& /*lock*/, BufferSlot& slot) noexcept {
  SlotClass& slot_class = classes_[slot.arena->class_index];
  slot.next_free = slot_class.free;
  slot_class.free = &slot;
}

void BufferPoolState::serve_waiters(const Lock& lock) noexcept {
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    Waiter& waiter = **at;
    waiter.granted = pop_free(lock, waiter.bytes);
    if (waiter.granted == nullptr) {
      ++at;
      continue;
    }
    at = waiters_.erase(at);
    waiter.wake.notify_one();  // under the lock: without it, the waiter might be gone already
  }
}

bool BufferPoolState::return_expected(const Lock& lock, std::uint64_t bytes) noexcept {
  return std::ranges::any_of(fitting_classes(lock, bytes),
                             [](const SlotClass& slot_class) { return slot_class.returning != 0; });
}

void BufferPoolState::mark_returning(const Lock& /*lock*/, BufferSlot& slot,
                                     bool returning) noexcept {
  if (slot.returning == returning) {
    return;
  }
  slot.returning = returning;
  if (slot.arena->class_index != BufferArena::kRetired) {
    std::uint32_t& count = classes_[slot.arena->class_index].returning;
    count = returning ? count + 1 : count - 1;
  }
}

void BufferPoolState::wake_without_return(const Lock& lock) noexcept {
  for (Waiter* waiter : waiters_) {
    if (stopped_ || !return_expected(lock, waiter->bytes)) {
      waiter->wake.notify_one();
    }
  }
}

// --- The world around ---------------------------------------------------------------------------

BufferPoolStats BufferPoolState::stats() const {
  const Lock lock(mutex_);
  return stats_;
}

void BufferPoolState::stop_waiting() {
  const Lock lock(mutex_);
  stopped_ = true;
  wake_without_return(lock);
}

}  // namespace penstock
