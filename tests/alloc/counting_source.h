#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "alloc/memory_source.h"

namespace penstock {

/// Counts how often another source is asked for memory. Parts of its pieces may come back singly,
/// where the other's may.
class CountingSource final : public MemorySource {
 public:
  explicit CountingSource(std::shared_ptr<MemorySource> upstream)
      : upstream_(std::move(upstream)) {}

  Result<Memory> allocate(std::uint64_t bytes) override {
    ++allocations_;
    Result<Memory> memory = upstream_->allocate(bytes);
    if (!memory) {
      return memory;
    }
    const std::span<std::byte> piece = memory->detach();
    return Memory(shared_from_this(), piece.data(), piece.size());
  }
  std::string_view name() const noexcept override { return "counting"; }
  bool divisible() const noexcept override { return upstream_->divisible(); }

  std::size_t allocations() const noexcept { return allocations_; }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override {
    const Memory back(upstream_, data, bytes);
  }

 private:
  const std::shared_ptr<MemorySource> upstream_;
  std::atomic<std::size_t> allocations_{0};
};

}  // namespace penstock
