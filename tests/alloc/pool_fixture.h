#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "alloc/limiting_source.h"
#include "alloc/page_source.h"

namespace penstock {

/// A pool over budgets of its own, whose callbacks are recorded and checked.
class PoolFixture : public testing::Test {
 protected:
  static constexpr std::uint64_t kBudget = 16 * kMiB;

  std::shared_ptr<LimitingSource> pinned_ =
      LimitingSource::make(PageSource::make(), kBudget, "max_pinned_bytes");
  std::shared_ptr<LimitingSource> pageable_ =
      LimitingSource::make(PageSource::make(), 64 * kMiB, "ram_bytes");
  std::mutex mutex_;
  std::vector<std::span<std::byte>> arenas_;  // announced and not removed
  std::unique_ptr<BufferPool> pool_ = std::make_unique<BufferPool>(BufferPoolOptions{
      .pinned = pinned_,
      .overflow = pageable_,
      .arena_added =
          [this](std::span<std::byte> arena) {
            arena.front() = std::byte{1};  // is there
            const std::lock_guard lock(mutex_);
            arenas_.push_back(arena);
          },
      .arena_removed =
          [this](std::span<std::byte> arena) {
            arena.back() = std::byte{1};  // is still there
            const std::lock_guard lock(mutex_);
            EXPECT_EQ(std::erase_if(arenas_,
                                    [&](std::span<std::byte> known) {
                                      return known.data() == arena.data() &&
                                             known.size() == arena.size();
                                    }),
                      1U)
                << "removed what was not added";
          },
  });

  void shape(std::vector<ClassPlan> plan) {
    const Result<void> shaped = pool_->shape(plan);
    ASSERT_TRUE(shaped.has_value()) << shaped.error().message;
  }
  std::size_t arenas_announced() {
    const std::lock_guard lock(mutex_);
    return arenas_.size();
  }
  // Returns when this many acquisitions have begun to wait since the pool was made.
  void until_waits(std::uint64_t waits) const {
    while (pool_->stats().waits < waits) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

}  // namespace penstock
