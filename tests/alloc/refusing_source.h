#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "alloc/page_source.h"

namespace penstock {

/// Pages, except where a test says that there are none of some sizes; and it may be there when
/// others are asked for.
class RefusingSource final : public MemorySource {
 public:
  /// No more pieces of `from` to `to` bytes.
  void refuse(std::uint64_t from, std::uint64_t to) {
    const std::lock_guard lock(mutex_);
    from_ = from;
    to_ = to;
  }
  void refuse(std::uint64_t bytes) { refuse(bytes, bytes); }
  void refuse_nothing() { refuse(1, 0); }
  /// Called at the begin of every allocation, on the thread that asks, without a lock of ours.
  void watch(std::function<void(std::uint64_t)> asked) {
    const std::lock_guard lock(mutex_);
    asked_ = std::move(asked);
  }
  std::uint64_t held_bytes() const { return held_bytes_.load(); }
  std::uint64_t refusals() const { return refusals_.load(); }

  Result<Memory> allocate(std::uint64_t bytes) override {
    std::unique_lock lock(mutex_);
    const std::function<void(std::uint64_t)> asked = asked_;
    const bool refused = bytes >= from_ && bytes <= to_;
    lock.unlock();
    if (asked) {
      asked(bytes);
    }
    if (refused) {
      ++refusals_;
      return fault(Fault::kExhausted, "the test has no such memory");
    }
    Result<Memory> memory = pages_->allocate(bytes);
    if (memory.has_error()) {
      return memory;
    }
    const std::span<std::byte> parts = memory->detach();
    held_bytes_ += parts.size();
    return Memory(shared_from_this(), parts.data(), parts.size());
  }
  std::string_view name() const noexcept override { return "refusing"; }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override {
    const Memory back(pages_, data, bytes);
    held_bytes_ -= bytes;
  }

 private:
  std::shared_ptr<MemorySource> pages_ = PageSource::make();
  mutable std::mutex mutex_;
  std::uint64_t from_ = 1;  // guarded by mutex_, as are the next two
  std::uint64_t to_ = 0;
  std::function<void(std::uint64_t)> asked_;
  std::atomic<std::uint64_t> held_bytes_{0};
  std::atomic<std::uint64_t> refusals_{0};
};

}  // namespace penstock
