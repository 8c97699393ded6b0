#include "tests/alloc/pool_fixture.h"

namespace penstock {
namespace {

class BufferPoolShape : public PoolFixture {};

TEST_F(BufferPoolShape, PinsExactlyWhatThePlanSays) {
  shape({{3 * kMiB, 2}, {100, 3}, {kMiB, 0}, {4096, 2}});
  EXPECT_EQ(pool_->shape(), (std::vector<ClassPlan>{{4096, 5}, {3 * kMiB, 2}}))
      << "ascending, whole blocks, one entry a size";
  EXPECT_EQ(pinned_->held_bytes(), 6 * kMiB + 5 * kBlockBytes);
  EXPECT_EQ(pool_->stats().pinned_bytes, pinned_->held_bytes());
  EXPECT_EQ(arenas_out(), 2U);
}

TEST_F(BufferPoolShape, SlotsAreDisjointAndAligned) {
  shape({{kMiB + kBlockBytes, 6}, {8 * kKiB, 16}});
  std::vector<Buffer> buffers;
  for (int index = 0; index < 6; ++index) {
    buffers.push_back(*pool_->acquire(kMiB + kBlockBytes));
  }
  for (int index = 0; index < 16; ++index) {
    buffers.push_back(*pool_->acquire(8 * kKiB));
  }
  std::ranges::sort(buffers, {}, [](const Buffer& buffer) { return buffer.data(); });
  for (std::size_t index = 0; index < buffers.size(); ++index) {
    EXPECT_EQ(buffers[index].kind(), BufferKind::kSlot);
    EXPECT_TRUE(is_aligned(buffers[index].data(), kBlockBytes));
    if (index != 0) {
      EXPECT_LE(buffers[index - 1].data() + buffers[index - 1].capacity(), buffers[index].data());
    }
  }
}

TEST_F(BufferPoolShape, ANewPlanFreesWhatItCannotUse) {
  shape({{kMiB, 4}, {2 * kMiB, 2}});
  shape({{2 * kMiB, 2}});
  EXPECT_EQ(pinned_->held_bytes(), 4 * kMiB);
  shape({});
  EXPECT_EQ(pinned_->held_bytes(), 0U);
  EXPECT_EQ(arenas_out(), 0U);
  EXPECT_TRUE(pool_->shape().empty());
}

TEST_F(BufferPoolShape, TheSamePlanAgainKeepsTheArenas) {
  shape({{kMiB, 4}, {2 * kMiB, 2}});
  const std::vector<std::span<std::byte>> before = arenas_->out();
  shape({{2 * kMiB, 2}, {kMiB, 4}});
  const std::vector<std::span<std::byte>> after = arenas_->out();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t index = 0; index < before.size(); ++index) {
    EXPECT_EQ(after[index].data(), before[index].data());
  }
  shape({{kMiB, 6}, {2 * kMiB, 2}});
  EXPECT_EQ(arenas_out(), 3U) << "more of a class is one arena more";
}

TEST_F(BufferPoolShape, LentSlotsStayValidAndTheirArenaGoesWithTheLast) {
  shape({{kMiB, 4}});
  Buffer first = *pool_->acquire(kMiB);
  Buffer second = *pool_->acquire(kMiB);
  std::ranges::fill(first.span(), std::byte{7});
  shape({{2 * kMiB, 2}});
  EXPECT_EQ(pinned_->held_bytes(), 8 * kMiB);
  EXPECT_EQ(pool_->shape(), (std::vector<ClassPlan>{{2 * kMiB, 2}}));
  const Buffer third = *pool_->acquire(kMiB);
  EXPECT_EQ(third.kind(), BufferKind::kDedicated) << "the old class lends no more";
  second = Buffer();
  EXPECT_EQ(pinned_->held_bytes(), 9 * kMiB);
  EXPECT_EQ(first.span().back(), std::byte{7});
  first = Buffer();
  EXPECT_EQ(pinned_->held_bytes(), 5 * kMiB);
}

TEST_F(BufferPoolShape, AnArenaThatIsStillLentServesThePlanThatWantsItsSize) {
  shape({{kMiB, 4}});
  Buffer held = *pool_->acquire(kMiB);
  shape({{2 * kMiB, 1}});
  shape({{kMiB, 4}, {2 * kMiB, 1}});
  EXPECT_EQ(pinned_->held_bytes(), 6 * kMiB) << "it is back in service, not doubled";
  held = Buffer();
  EXPECT_EQ(pinned_->held_bytes(), 6 * kMiB);
  EXPECT_EQ(pool_->acquire(kMiB)->kind(), BufferKind::kSlot);
}

TEST_F(BufferPoolShape, APromiseSurvivesTheReshaping) {
  shape({{kMiB, 1}});
  Buffer held = *pool_->acquire(kMiB);
  held.expect_return();
  shape({{kMiB, 1}, {2 * kMiB, 1}});
  std::thread waiting([&] { EXPECT_EQ(pool_->acquire(kMiB)->kind(), BufferKind::kSlot); });
  until_waits(1);
  held = Buffer();
  waiting.join();
}

TEST_F(BufferPoolShape, WaitersGetTheSlotsOfANewPlan) {
  shape({{kMiB, 1}});
  Buffer held = *pool_->acquire(kMiB);
  held.expect_return();
  std::thread waiting([&] { EXPECT_EQ(pool_->acquire(kMiB)->kind(), BufferKind::kSlot); });
  until_waits(1);
  shape({{kMiB, 3}});
  waiting.join();
}

TEST_F(BufferPoolShape, WaitersGoOnWhenTheirClassIsGone) {
  shape({{kMiB, 1}});
  Buffer held = *pool_->acquire(kMiB);
  held.expect_return();
  std::thread waiting([&] { EXPECT_EQ(pool_->acquire(kMiB)->kind(), BufferKind::kDedicated); });
  until_waits(1);
  shape({{4 * kMiB, 1}});
  waiting.join();
}

TEST_F(BufferPoolShape, WhatTheBudgetCannotHoldIsLeftOutLargestFirst) {
  shape({{kMiB, 5}, {3 * kMiB, 10}});
  EXPECT_EQ(pool_->shape(), (std::vector<ClassPlan>{{kMiB, 5}, {3 * kMiB, 3}}));
  EXPECT_EQ(pinned_->held_bytes(), 14 * kMiB);
  EXPECT_LE(pinned_->held_bytes(), kBudget);
}

TEST_F(BufferPoolShape, AClassGrowsToItsPlanWhenThereIsRoomAgain) {
  std::optional<Buffer> in_the_way = pool_->try_acquire(14 * kMiB);
  ASSERT_TRUE(in_the_way);
  shape({{2 * kMiB, 4}});
  EXPECT_EQ(pool_->shape(), (std::vector<ClassPlan>{{2 * kMiB, 1}}));
  in_the_way.reset();
  std::vector<Buffer> buffers;
  for (int index = 0; index < 5; ++index) {
    buffers.push_back(*pool_->acquire(2 * kMiB));
  }
  EXPECT_EQ(std::ranges::count(buffers, BufferKind::kSlot, &Buffer::kind), 4);
  EXPECT_EQ(buffers.back().kind(), BufferKind::kDedicated) << "and no further";
  buffers.clear();
  EXPECT_EQ(pool_->shape(), (std::vector<ClassPlan>{{2 * kMiB, 4}}));
  EXPECT_EQ(pinned_->held_bytes(), 8 * kMiB) << "slots stay, the dedicated buffer went";
}

TEST_F(BufferPoolShape, APlanOfWhichNothingFitsIsAnError) {
  const Result<void> shaped = pool_->shape(std::vector<ClassPlan>{{kBudget + 1, 3}});
  ASSERT_FALSE(shaped);
  EXPECT_EQ(shaped.error().code, Fault::kExhausted);
  EXPECT_NE(shaped.error().message.find("max_pinned_bytes"), std::string::npos);
  const Result<void> absurd = pool_->shape(std::vector<ClassPlan>{{~std::uint64_t{0}, 1}});
  ASSERT_FALSE(absurd);
  EXPECT_EQ(absurd.error().code, Fault::kInvalidArgument);
}

TEST_F(BufferPoolShape, ArenasAreOfAtMostAGibibyte) {
  pinned_->set_limit_bytes(8 * kGiB);
  shape({{kGiB + kMiB, 1}, {300 * kMiB, 4}});
  EXPECT_EQ(pool_->shape(), (std::vector<ClassPlan>{{300 * kMiB, 4}, {kGiB + kMiB, 1}}));
  std::vector<std::uint64_t> sizes;
  for (const std::span<std::byte> arena : arenas_->out()) {
    sizes.push_back(arena.size());
  }
  std::ranges::sort(sizes);
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{300 * kMiB, 900 * kMiB, kGiB + kMiB}));
}

TEST_F(BufferPoolShape, BuffersOutliveThePool) {
  shape({{kMiB, 2}});
  Buffer slot = *pool_->acquire(kMiB);
  Buffer dedicated = *pool_->acquire(3 * kMiB);
  Buffer overflow = *pool_->acquire_overflow(kMiB);
  slot.expect_return();
  pool_.reset();
  EXPECT_EQ(arenas_out(), 2U) << "of the slot that is lent, and the dedicated buffer";
  for (const Buffer* buffer : {&slot, &dedicated, &overflow}) {
    std::ranges::fill(buffer->span(), std::byte{9});
  }
  EXPECT_EQ(pinned_->held_bytes(), 5 * kMiB);
  slot.expect_no_return();
  slot = Buffer();
  EXPECT_EQ(pinned_->held_bytes(), 3 * kMiB);
  dedicated = Buffer();
  overflow = Buffer();
  EXPECT_EQ(pinned_->held_bytes() + pageable_->held_bytes(), 0U);
}

TEST_F(BufferPoolShape, APoolWithoutLeasesLeavesNothing) {
  shape({{kMiB, 2}});
  pool_.reset();
  EXPECT_EQ(pinned_->held_bytes(), 0U);
  EXPECT_EQ(arenas_out(), 0U);
}

}  // namespace
}  // namespace penstock
