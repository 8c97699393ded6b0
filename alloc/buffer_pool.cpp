#include "alloc/buffer_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/buffer_pool_state.h"
#include "alloc/bytes.h"

namespace penstock {
namespace {

constexpr std::uint64_t kSlotBytesMax = std::uint64_t{1} << 57;  // more than an address space

// Ascending, in whole blocks, one entry a size, none without slots.
std::vector<ClassPlan> tidy(std::span<const ClassPlan> plan) {
  std::vector<ClassPlan> tidied;
  for (const ClassPlan& wanted : plan) {
    if (wanted.slot_bytes != 0 && wanted.slots != 0) {
      tidied.push_back({align_up(wanted.slot_bytes, kBlockBytes), wanted.slots});
    }
  }
  std::ranges::sort(tidied, {}, &ClassPlan::slot_bytes);
  std::vector<ClassPlan> merged;
  for (const ClassPlan& wanted : tidied) {
    if (!merged.empty() && merged.back().slot_bytes == wanted.slot_bytes) {
      merged.back().slots += wanted.slots;
    } else {
      merged.push_back(wanted);
    }
  }
  return merged;
}

}  // namespace

BufferPool::BufferPool(BufferPoolOptions options)
    : state_(std::make_shared<BufferPoolState>(std::move(options))) {}

BufferPool::~BufferPool() {
  state_->close();
}

Result<void> BufferPool::shape(std::span<const ClassPlan> plan, IfShaped if_shaped) {
  for (const ClassPlan& wanted : plan) {
    if (wanted.slot_bytes > kSlotBytesMax) {
      return fault(Fault::kInvalidArgument, fmt::format("a slot of {} is larger than any memory",
                                                        format_bytes(wanted.slot_bytes)));
    }
  }
  return state_->reshape(tidy(plan), if_shaped);
}

std::optional<Buffer> BufferPool::try_acquire_slot(std::uint64_t bytes) {
  BufferSlot* slot = state_->take_free(bytes);
  return slot == nullptr ? std::nullopt
                         : std::optional(BufferPoolState::lease(state_, *slot, bytes));
}

std::optional<Buffer> BufferPool::try_acquire(std::uint64_t bytes) {
  BufferSlot* slot = state_->take_free(bytes);
  if (slot == nullptr) {
    const Result<BufferSlot*> pinned = state_->add_pinned(bytes);
    if (!pinned) {
      return std::nullopt;
    }
    slot = *pinned;
  }
  return BufferPoolState::lease(state_, *slot, bytes);
}

Result<Buffer> BufferPool::acquire(std::uint64_t bytes) {
  if (BufferSlot* slot = state_->take_free_or_wait(bytes); slot != nullptr) {
    return BufferPoolState::lease(state_, *slot, bytes);
  }
  const Result<BufferSlot*> pinned = state_->add_pinned(bytes);
  if (pinned) {
    return BufferPoolState::lease(state_, **pinned, bytes);
  }
  Result<Buffer> overflow = acquire_overflow(bytes);
  if (overflow) {
    return overflow;
  }
  Error error = overflow.error();
  if (error.code != pinned.error().code || error.message != pinned.error().message) {
    error.message += fmt::format(" (pinned memory: {})", pinned.error().message);
  }
  return error;
}

bool BufferPool::would_wait(std::uint64_t bytes) const {
  return state_->would_wait(bytes);
}

void BufferPool::watch() const {
  state_->watch();
}

Result<Buffer> BufferPool::acquire_overflow(std::uint64_t bytes) {
  const Result<BufferSlot*> overflow = state_->add_overflow(bytes);
  if (!overflow) {
    return overflow.error();
  }
  return BufferPoolState::lease(state_, **overflow, bytes);
}

void BufferPool::stop_waiting() {
  state_->stop_waiting();
}

BufferPoolStats BufferPool::stats() const {
  return state_->stats();
}

std::vector<ClassPlan> BufferPool::shape() const {
  return state_->shape();
}

}  // namespace penstock
