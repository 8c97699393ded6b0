#include "alloc/recycling_source.h"

#include <new>
#include <utility>

namespace penstock {

std::shared_ptr<RecyclingSource> RecyclingSource::make(std::shared_ptr<MemorySource> upstream) {
  return std::make_shared<RecyclingSource>(std::move(upstream));
}

RecyclingSource::RecyclingSource(std::shared_ptr<MemorySource> upstream)
    : upstream_(std::move(upstream)) {}

Result<Memory> RecyclingSource::allocate(std::uint64_t bytes) {
  const Result<std::uint64_t> blocks = whole_blocks(bytes);
  if (!blocks) {
    return blocks.error();
  }
  Memory memory = take_retained(*blocks);
  if (!memory) {
    Result<Memory> fresh = upstream_->allocate(bytes);
    if (!fresh && retained_bytes() != 0) {
      {
        std::unique_lock lock(mutex_);
        const Pieces dropped = trim_locked(0);
        lock.unlock();
      }
      fresh = upstream_->allocate(bytes);
    }
    if (!fresh) {
      return fresh;
    }
    memory = std::move(*fresh);
  }
  const std::span<std::byte> parts = memory.detach();
  return Memory(shared_from_this(), parts.data(), parts.size());
}

Memory RecyclingSource::take_retained(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto best = by_bytes_.lower_bound(bytes);
  if (best == by_bytes_.end() || best->first - bytes > bytes / 8) {
    return {};
  }
  Memory memory = std::move(*best->second);
  retained_bytes_ -= best->first;
  retained_.erase(best->second);
  by_bytes_.erase(best);
  return memory;
}

RecyclingSource::Pieces RecyclingSource::trim_locked(std::uint64_t limit_bytes) {
  Pieces dropped;
  while (retained_bytes_ > limit_bytes) {
    const auto oldest = retained_.begin();
    auto index = by_bytes_.lower_bound(oldest->bytes());
    while (index->second != oldest) {
      ++index;
    }
    by_bytes_.erase(index);
    retained_bytes_ -= oldest->bytes();
    dropped.splice(dropped.end(), retained_, oldest);
  }
  return dropped;
}

void RecyclingSource::set_retained_limit_bytes(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  retained_limit_bytes_ = bytes;
  const Pieces dropped = trim_locked(bytes);
  lock.unlock();
}

std::uint64_t RecyclingSource::retained_bytes() const {
  const std::lock_guard lock(mutex_);
  return retained_bytes_;
}

void RecyclingSource::release(std::byte* data, std::uint64_t bytes) noexcept {
  Memory memory(upstream_, data, bytes);
  Pieces dropped;
  try {
    const std::lock_guard lock(mutex_);
    if (bytes <= retained_limit_bytes_) {
      dropped = trim_locked(retained_limit_bytes_ - bytes);
      Pieces piece;
      piece.emplace_back();
      by_bytes_.emplace(bytes, piece.begin());
      piece.front() = std::move(memory);
      retained_.splice(retained_.end(), piece);
      retained_bytes_ += bytes;
    }
  } catch (const std::bad_alloc&) {
    // No memory for the bookkeeping: the piece goes back upstream, which is what is needed now.
  }
}

}  // namespace penstock
