#include <gmock/gmock.h>

#include <future>

#include "tests/alloc/pool_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

class BufferPoolLadder : public PoolFixture {
 protected:
  std::future<Result<Buffer>> acquire_elsewhere(std::uint64_t bytes) {
    return std::async(std::launch::async, [this, bytes] { return pool_->acquire(bytes); });
  }
};

TEST_F(BufferPoolLadder, FirstRungIsASlotOfTheSmallestClassThatFits) {
  shape({{4 * kMiB, 1}, {kMiB, 2}, {64 * kKiB, 1}});
  const Buffer small = *pool_->acquire(60 * kKiB);
  EXPECT_EQ(small.kind(), BufferKind::kSlot);
  EXPECT_EQ(small.bytes(), 60 * kKiB);
  EXPECT_EQ(small.capacity(), 64 * kKiB);
  EXPECT_EQ(small.span().size(), 60 * kKiB);
  const Buffer exact = *pool_->try_acquire(kMiB);
  const Buffer near = *pool_->try_acquire(kMiB - kMiB / 8);
  EXPECT_EQ(exact.capacity(), kMiB);
  EXPECT_EQ(near.capacity(), kMiB);
  EXPECT_NE(exact.data(), near.data());
  EXPECT_EQ(pool_->stats().slot_bytes_live, 60 * kKiB + kMiB + kMiB - kMiB / 8);
}

TEST_F(BufferPoolLadder, ASlotOrNothingStopsAtTheFirstRung) {
  shape({{kMiB, 1}});
  const std::optional<Buffer> slot = pool_->try_acquire_slot(kMiB);
  ASSERT_TRUE(slot);
  EXPECT_EQ(slot->kind(), BufferKind::kSlot);
  EXPECT_FALSE(pool_->try_acquire_slot(kMiB)) << "though the budget has room for more";
  EXPECT_FALSE(pool_->try_acquire_slot(4 * kMiB));
  EXPECT_FALSE(pool_->try_acquire_slot(0));
  EXPECT_EQ(pinned_->held_bytes(), kMiB);
}

TEST_F(BufferPoolLadder, MoreThanAnEighthOfWasteIsNoFit) {
  shape({{kMiB, 1}});
  const Buffer buffer = *pool_->try_acquire(kMiB - kMiB / 8 - 1);
  EXPECT_EQ(buffer.kind(), BufferKind::kSlot) << "whole blocks are compared";
  const Buffer smaller = *pool_->try_acquire(kMiB - kMiB / 8 - kBlockBytes);
  EXPECT_EQ(smaller.kind(), BufferKind::kDedicated);
}

TEST_F(BufferPoolLadder, AFewBytesFitABlock) {
  shape({{100, 1}});
  const Buffer buffer = *pool_->acquire(1);
  EXPECT_EQ(buffer.kind(), BufferKind::kSlot);
  EXPECT_EQ(buffer.capacity(), kBlockBytes);
}

TEST_F(BufferPoolLadder, TheNextClassHelpsOutWhereItIsNearEnough) {
  shape({{100 * kKiB, 1}, {108 * kKiB, 1}, {kMiB, 1}});
  const Buffer first = *pool_->acquire(100 * kKiB);
  const Buffer second = *pool_->acquire(100 * kKiB);
  EXPECT_EQ(first.capacity(), 100 * kKiB);
  EXPECT_EQ(second.capacity(), 108 * kKiB);
  EXPECT_EQ(second.kind(), BufferKind::kSlot);
}

TEST_F(BufferPoolLadder, WhatIsGivenBackIsLentAgain) {
  shape({{kMiB, 1}});
  std::byte* data = nullptr;
  {
    const Buffer buffer = *pool_->acquire(kMiB);
    data = buffer.data();
  }
  EXPECT_EQ(pool_->acquire(kMiB)->data(), data);
  EXPECT_EQ(pool_->stats().slot_bytes_live, 0U);
  EXPECT_EQ(pool_->stats().slot_bytes_live_max, kMiB);
}

TEST_F(BufferPoolLadder, SecondRungWaitsForAnExpectedReturn) {
  shape({{kMiB, 1}});
  Buffer held = *pool_->acquire(kMiB);
  std::byte* const data = held.data();
  held.expect_return();
  auto waiting = acquire_elsewhere(kMiB);
  until_waits(1);
  held = Buffer();
  const Result<Buffer> buffer = waiting.get();
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->data(), data);
  EXPECT_EQ(buffer->kind(), BufferKind::kSlot);
}

TEST_F(BufferPoolLadder, NoWaitForALeaseThatOnlyItsHolderCanEnd) {
  shape({{kMiB, 1}});
  Buffer held = *pool_->acquire(kMiB);
  EXPECT_EQ(pool_->acquire(kMiB)->kind(), BufferKind::kDedicated);
  held.expect_return();
  held.expect_no_return();
  EXPECT_EQ(pool_->acquire(kMiB)->kind(), BufferKind::kDedicated);
  EXPECT_EQ(pool_->stats().waits, 0U);
}

TEST_F(BufferPoolLadder, WaitingEndsWhenTheReturnIsCalledOff) {
  shape({{kMiB, 1}});
  Buffer held = *pool_->acquire(kMiB);
  held.expect_return();
  held.expect_return();  // said twice is said once
  auto waiting = acquire_elsewhere(kMiB);
  until_waits(1);
  held.expect_no_return();
  EXPECT_EQ(waiting.get()->kind(), BufferKind::kDedicated);
}

TEST_F(BufferPoolLadder, ItReportsTheNextChangeAfterEachWatch) {
  int changes = 0;
  pool_ = std::make_unique<BufferPool>(BufferPoolOptions{
      .pinned = arenas_, .overflow = pageable_, .changed = [&changes] { ++changes; }});
  shape({{kMiB, 2}});
  Buffer held = *pool_->acquire(kMiB);
  Buffer other = *pool_->acquire(kMiB);
  held.expect_return();
  EXPECT_TRUE(pool_->would_wait(kMiB));
  held.expect_no_return();
  EXPECT_EQ(changes, 0) << "nothing was asked for";
  held.expect_return();
  pool_->watch();
  held.expect_no_return();
  EXPECT_EQ(changes, 1);
  held = Buffer();
  EXPECT_EQ(changes, 1) << "once";
  pool_->watch();
  other = Buffer();
  EXPECT_EQ(changes, 2);
  const Buffer pageable = *pool_->acquire_overflow(kMiB);
  pool_->watch();
  other = *pool_->acquire(kMiB);
  EXPECT_EQ(changes, 2) << "what is taken helps no waiter";
}

TEST_F(BufferPoolLadder, PageableMemoryIsFreedBeforeItIsReported) {
  std::uint64_t lent = 0;
  pool_ = std::make_unique<BufferPool>(
      BufferPoolOptions{.pinned = arenas_, .overflow = pageable_, .changed = [&] {
                          lent = pageable_->held_bytes();
                        }});
  Buffer held = *pool_->acquire_overflow(kMiB);
  lent = pageable_->held_bytes();
  EXPECT_GE(lent, kMiB);
  pool_->watch();
  held = Buffer();
  EXPECT_EQ(lent, 0U);
}

TEST_F(BufferPoolLadder, WaitingEndsForThoseWhoseReturnAnotherTook) {
  shape({{kMiB, 1}});
  Buffer held = *pool_->acquire(kMiB);
  held.expect_return();
  auto first = acquire_elsewhere(kMiB);
  until_waits(1);
  auto second = acquire_elsewhere(kMiB);
  until_waits(2);
  held = Buffer();
  const Result<Buffer> served = first.get();
  EXPECT_EQ(served->kind(), BufferKind::kSlot) << "first come first";
  EXPECT_EQ(second.get()->kind(), BufferKind::kDedicated) << "no other return was promised";
}

TEST_F(BufferPoolLadder, WaitersAreServedInTheOrderOfTheirComing) {
  constexpr std::size_t kWaiters = 4;
  shape({{kMiB, kWaiters}});
  std::vector<Buffer> held;
  for (std::size_t index = 0; index < kWaiters; ++index) {
    held.push_back(*pool_->acquire(kMiB));
    held.back().expect_return();
  }
  std::vector<std::future<Result<Buffer>>> waiting;
  for (std::size_t index = 0; index < kWaiters; ++index) {
    waiting.push_back(acquire_elsewhere(kMiB));
    until_waits(index + 1);
  }
  std::vector<Buffer> served;
  for (std::size_t index = 0; index < kWaiters; ++index) {
    std::byte* const data = held.back().data();
    held.pop_back();
    served.push_back(*waiting[index].get());
    EXPECT_EQ(served.back().data(), data);
  }
  EXPECT_EQ(pool_->stats().waits, kWaiters);
}

TEST_F(BufferPoolLadder, SmallRequestsDoNotStarveALargeOne) {
  shape({{4 * kMiB, 1}, {kMiB, 1}});
  Buffer large = *pool_->acquire(4 * kMiB);
  large.expect_return();
  auto waiting = acquire_elsewhere(4 * kMiB);
  until_waits(1);
  for (int round = 0; round < 100; ++round) {
    const Buffer small = *pool_->acquire(kMiB);
    EXPECT_EQ(small.capacity(), kMiB);
  }
  large = Buffer();
  EXPECT_EQ(waiting.get()->kind(), BufferKind::kSlot);
}

TEST_F(BufferPoolLadder, WaitingForOneClassDoesNotHoldUpAnother) {
  shape({{4 * kMiB, 1}, {kMiB, 1}});
  Buffer large = *pool_->acquire(4 * kMiB);
  Buffer small = *pool_->acquire(kMiB);
  large.expect_return();
  small.expect_return();
  auto large_waiting = acquire_elsewhere(4 * kMiB);
  until_waits(1);
  auto small_waiting = acquire_elsewhere(kMiB);
  until_waits(2);
  small = Buffer();
  EXPECT_EQ(small_waiting.get()->capacity(), kMiB);
  large = Buffer();
  EXPECT_EQ(large_waiting.get()->capacity(), 4 * kMiB);
}

TEST_F(BufferPoolLadder, StopWaitingSendsEverybodyDownTheLadder) {
  shape({{kMiB, 1}});
  Buffer held = *pool_->acquire(kMiB);
  held.expect_return();
  auto waiting = acquire_elsewhere(kMiB);
  until_waits(1);
  pool_->stop_waiting();
  EXPECT_EQ(waiting.get()->kind(), BufferKind::kDedicated);
  EXPECT_EQ(pool_->acquire(kMiB)->kind(), BufferKind::kDedicated) << "for ever";
}

TEST_F(BufferPoolLadder, ThirdRungIsADedicatedBufferWithinTheBudget) {
  const std::uint64_t bytes = 5 * kMiB + 1;
  {
    const Buffer buffer = *pool_->acquire(bytes);
    EXPECT_EQ(buffer.kind(), BufferKind::kDedicated);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(buffer.capacity(), 5 * kMiB + kBlockBytes);
    EXPECT_TRUE(is_aligned(buffer.data(), kHugePageBytes));
    EXPECT_EQ(arenas_out(), 1U);
    EXPECT_EQ(pool_->stats().pinned_bytes, 5 * kMiB + kBlockBytes);
    EXPECT_EQ(pool_->stats().slot_bytes_live, bytes);
  }
  EXPECT_EQ(arenas_out(), 0U);
  EXPECT_EQ(pinned_->held_bytes(), 0U);
  EXPECT_EQ(pool_->stats().pinned_bytes, 0U);
}

TEST_F(BufferPoolLadder, FourthRungIsPageable) {
  const Buffer pinned = *pool_->acquire(kBudget - kMiB);
  EXPECT_FALSE(pool_->try_acquire(2 * kMiB)) << "try_acquire stops above";
  {
    const Buffer first = *pool_->acquire(2 * kMiB);
    const Buffer second = *pool_->acquire(2 * kMiB);
    EXPECT_EQ(first.kind(), BufferKind::kOverflow);
    EXPECT_EQ(pool_->stats().overflow_bytes, 4 * kMiB);
    EXPECT_EQ(pool_->stats().overflows, 2U);
  }
  EXPECT_EQ(pool_->stats().overflow_bytes, 0U);
  EXPECT_EQ(pool_->stats().overflow_bytes_max, 4 * kMiB);
  EXPECT_EQ(pageable_->held_bytes(), 0U);
  EXPECT_EQ(arenas_out(), 1U) << "pageable memory comes from the other source";
}

TEST_F(BufferPoolLadder, OverflowOnDemandPinsNothing) {
  const Buffer buffer = *pool_->acquire_overflow(3 * kMiB);
  EXPECT_EQ(buffer.kind(), BufferKind::kOverflow);
  EXPECT_EQ(pinned_->held_bytes(), 0U);
}

TEST_F(BufferPoolLadder, BelowTheLastRungAreBothNumbersToRaise) {
  const Result<Buffer> refused = pool_->acquire(100 * kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Fault::kExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("ram_bytes"));
  EXPECT_THAT(refused.error().message, HasSubstr("max_pinned_bytes"));
}

TEST_F(BufferPoolLadder, ABufferOfNothingIsAnError) {
  EXPECT_FALSE(pool_->try_acquire(0));
  EXPECT_EQ(pool_->acquire(0).error().code, Fault::kInvalidArgument);
  EXPECT_EQ(pool_->acquire_overflow(0).error().code, Fault::kInvalidArgument);
  EXPECT_FALSE(pool_->acquire(~std::uint64_t{0}));
}

TEST_F(BufferPoolLadder, WithoutSourcesThereAreErrorsOnly) {
  BufferPool empty({});
  EXPECT_FALSE(empty.try_acquire(1));
  EXPECT_EQ(empty.acquire(1).error().code, Fault::kExhausted);
  EXPECT_FALSE(empty.shape(std::vector<ClassPlan>{{kMiB, 1}}));
}

TEST_F(BufferPoolLadder, BuffersMoveAndEmptyOnesDoNothing) {
  shape({{kMiB, 2}});
  Buffer first = *pool_->acquire(kMiB);
  Buffer second = *pool_->acquire(kMiB);
  std::byte* const data = second.data();
  first.expect_return();
  first = std::move(second);  // gives the first back, promise and all
  EXPECT_EQ(first.data(), data);
  EXPECT_EQ(pool_->stats().slot_bytes_live, kMiB);
  Buffer empty;
  EXPECT_FALSE(empty);
  empty.expect_return();
  empty.expect_no_return();
  EXPECT_EQ(empty.span().size(), 0U);
}

}  // namespace
}  // namespace penstock
