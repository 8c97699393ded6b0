#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "alloc/memory_source.h"

namespace penstock {

/// Notes which pieces of another source are out.
class RecordingSource final : public MemorySource {
 public:
  explicit RecordingSource(std::shared_ptr<MemorySource> upstream)
      : upstream_(std::move(upstream)) {}

  Result<Memory> allocate(std::uint64_t bytes) override {
    Result<Memory> memory = upstream_->allocate(bytes);
    if (!memory) {
      return memory;
    }
    memory->span().front() = std::byte{1};  // is there
    const std::span<std::byte> piece = memory->detach();
    const std::lock_guard lock(mutex_);
    out_.push_back(piece);
    return Memory(shared_from_this(), piece.data(), piece.size());
  }
  std::string_view name() const noexcept override { return "recording"; }

  /// In the order in which they went out.
  std::vector<std::span<std::byte>> out() const {
    const std::lock_guard lock(mutex_);
    return out_;
  }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override {
    data[bytes - 1] = std::byte{1};  // is still there
    {
      const std::lock_guard lock(mutex_);
      const auto is_it = [&](std::span<std::byte> piece) {
        return piece.data() == data && piece.size() == bytes;
      };
      EXPECT_EQ(std::erase_if(out_, is_it), 1U) << "this piece is not out";
    }
    const Memory back(upstream_, data, bytes);
  }

 private:
  const std::shared_ptr<MemorySource> upstream_;
  mutable std::mutex mutex_;
  std::vector<std::span<std::byte>> out_;
};

}  // namespace penstock
