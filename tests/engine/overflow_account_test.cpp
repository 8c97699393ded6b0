#include "swap/engine/overflow_account.h"

#include <gtest/gtest.h>

#include <memory>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "alloc/limiting_source.h"
#include "alloc/page_source.h"
#include "alloc/recycling_source.h"
#include "swap/plan/placement.h"

namespace penstock {
namespace {

class OverflowAccountTest : public ::testing::Test {
 protected:
  OverflowAccountTest() {
    BufferPoolOptions options;
    options.pinned = LimitingSource::make(PageSource::make({}), 0, "max_pinned_bytes");
    options.overflow = RecyclingSource::make(PageSource::make({}));
    pool_ = std::make_unique<BufferPool>(std::move(options));
  }
  std::unique_ptr<Block> pageable(std::uint64_t bytes) {
    return std::make_unique<Block>(pool_->acquire_overflow(bytes).value(), bytes);
  }
  std::uint64_t used() const { return pool_->stats().overflow_bytes; }

  std::unique_ptr<BufferPool> pool_;
  OverflowAccount account_;
};

TEST_F(OverflowAccountTest, OnlyWhatCallersHoldRaisesThePeak) {
  const auto ahead = pageable(3 * kMiB);
  account_.count(*ahead, OverflowUse::kAhead);
  account_.note_peak(used());
  EXPECT_EQ(account_.kept_room(0, kGiB), 0) << "nothing was ever held";
  account_.count(*ahead, OverflowUse::kHeld);
  account_.note_peak(used());
  EXPECT_EQ(account_.kept_room(0, kGiB), 3 * kMiB / 2) << "half of the peak";
  EXPECT_EQ(account_.kept_room(0, kMiB), kMiB) << "the limit";
  account_.note_content(3 * kMiB);
  EXPECT_EQ(account_.kept_room(0, kGiB), 3 * kMiB) << "one content may always be kept";
  EXPECT_EQ(account_.kept_room(2 * kMiB, kGiB), kMiB) << "never beyond the peak";
  account_.forget_peaks();
  EXPECT_EQ(account_.kept_room(0, kGiB), 0);
}

TEST_F(OverflowAccountTest, WaitsOnlyWhileWritesGiveMemoryBack) {
  const auto held = pageable(kMiB);
  account_.note_peak(used());
  EXPECT_FALSE(account_.should_wait_for_writes(used() + kGiB, kGiB)) << "nothing comes back";
  const auto behind = pageable(kMiB);
  account_.count(*behind, OverflowUse::kBehind);
  EXPECT_FALSE(account_.should_wait_for_writes(used(), kMiB)) << "within the slack";
  const std::uint64_t much = kWriteBackSlackBytes + 4 * kMiB;
  const auto written = pageable(much);
  account_.count(*written, OverflowUse::kBehind);
  EXPECT_TRUE(account_.should_wait_for_writes(used(), kMiB));
  account_.count(*written, OverflowUse::kHeld);
  EXPECT_FALSE(account_.should_wait_for_writes(used(), kMiB)) << "callers hold it";
}

TEST_F(OverflowAccountTest, SlotsDoNotCount) {
  Block own(PageSource::make({})->allocate(kMiB).value(), kMiB);
  account_.count(own, OverflowUse::kBehind);
  EXPECT_FALSE(account_.should_wait_for_writes(kGiB, kGiB));
}

}  // namespace
}  // namespace penstock
