#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "alloc/limiting_source.h"
#include "alloc/page_source.h"
#include "tests/alloc/recording_source.h"

namespace penstock {

/// A pool over budgets of its own, whose pinned arenas are recorded and checked.
class PoolFixture : public testing::Test {
 protected:
  static constexpr std::uint64_t kBudget = 16 * kMiB;

  std::shared_ptr<LimitingSource> pinned_ =
      LimitingSource::make(PageSource::make(), kBudget, "max_pinned_bytes");
  std::shared_ptr<LimitingSource> pageable_ =
      LimitingSource::make(PageSource::make(), 64 * kMiB, "ram_bytes");
  std::shared_ptr<RecordingSource> arenas_ = std::make_shared<RecordingSource>(pinned_);
  std::unique_ptr<BufferPool> pool_ =
      std::make_unique<BufferPool>(BufferPoolOptions{.pinned = arenas_, .overflow = pageable_});

  void shape(std::vector<ClassPlan> plan) {
    const Result<void> shaped = pool_->shape(plan);
    ASSERT_TRUE(shaped.has_value()) << shaped.error().message;
  }
  std::size_t arenas_out() const { return arenas_->out().size(); }
  // Returns when this many acquisitions have begun to wait since the pool was made.
  void until_waits(std::uint64_t waits) const {
    while (pool_->stats().waits < waits) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

}  // namespace penstock
