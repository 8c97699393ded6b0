#include "alloc/recycling_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/limiting_source.h"
#include "alloc/page_source.h"
#include "alloc/pinned_source.h"

namespace penstock {
namespace {

// Pages that may be divided, as overflow memory is.
struct Stack {
  std::shared_ptr<LimitingSource> upstream =
      LimitingSource::make(PageSource::make(), 64 * kMiB, "b");
  std::shared_ptr<RecyclingSource> source = RecyclingSource::make(upstream);
};

// Pages that may not: a pinned piece is unpinned whole.
struct WholeStack {
  std::shared_ptr<LimitingSource> upstream =
      LimitingSource::make(PinnedSource::make(PageSource::make(), {}), 64 * kMiB, "b");
  std::shared_ptr<RecyclingSource> source = RecyclingSource::make(upstream);
};

TEST(RecyclingSource, RetainsNothingByDefault) {
  const Stack stack;
  {
    const Result<Memory> memory = stack.source->allocate(kMiB);
  }
  EXPECT_EQ(stack.source->retained_bytes(), 0U);
  EXPECT_EQ(stack.upstream->held_bytes(), 0U);
}

TEST(RecyclingSource, GivesTheSamePieceAgain) {
  const Stack stack;
  stack.source->set_limits({.retained_bytes = 8 * kMiB});
  std::byte* data = nullptr;
  {
    const Result<Memory> memory = stack.source->allocate(4 * kMiB);
    data = memory->data();
    data[5] = std::byte{42};
  }
  EXPECT_EQ(stack.source->retained_bytes(), 4 * kMiB);
  const Result<Memory> again = stack.source->allocate(4 * kMiB - kMiB / 4);
  EXPECT_EQ(again->data(), data);
  EXPECT_EQ(again->bytes(), 4 * kMiB) << "says how many there are";
  EXPECT_EQ(again->data()[5], std::byte{42});
  EXPECT_EQ(stack.source->retained_bytes(), 0U);
  EXPECT_EQ(stack.upstream->held_bytes(), 4 * kMiB);
}

TEST(RecyclingSource, AnEighthMayBeWastedAndNoMore) {
  const WholeStack stack;
  stack.source->set_limits({.retained_bytes = 64 * kMiB});
  {
    const Result<Memory> memory = stack.source->allocate(8 * kMiB);
  }
  EXPECT_NE(stack.source->allocate(7 * kMiB - kBlockBytes)->bytes(), 8 * kMiB);
  EXPECT_EQ(stack.source->allocate(7 * kMiB)->bytes(), 8 * kMiB);
}

TEST(RecyclingSource, KeepsWithinItsLimitAndDropsTheLongestIdleFirst) {
  const WholeStack stack;
  stack.source->set_limits({.retained_bytes = 6 * kMiB});
  for (const std::uint64_t mebibytes : {1U, 2U, 3U, 4U, 20U}) {
    const Result<Memory> memory = stack.source->allocate(mebibytes * kMiB);
  }
  // 1, 2 and 3 fit; 4 drove them out but could not keep company; 20 is more than the limit.
  EXPECT_EQ(stack.source->retained_bytes(), 4 * kMiB);
  EXPECT_EQ(stack.upstream->held_bytes(), 4 * kMiB);
  stack.source->set_limits({.retained_bytes = 3 * kMiB});
  EXPECT_EQ(stack.source->retained_bytes(), 0U);
  EXPECT_EQ(stack.upstream->held_bytes(), 0U);
}

TEST(RecyclingSource, WhatIsFreedStaysAsFarAsWhatIsLentLeavesRoom) {
  const Stack stack;
  stack.source->set_limits({.retained_bytes = 64 * kMiB, .total_bytes = 20 * kMiB});
  Memory first = stack.source->allocate(12 * kMiB).value();
  Memory second = stack.source->allocate(8 * kMiB).value();
  EXPECT_EQ(stack.source->lent_bytes(), 20 * kMiB);
  std::byte* const data = first.data();
  first = {};
  EXPECT_EQ(stack.source->retained_bytes(), 12 * kMiB) << "without a new limit";
  first = stack.source->allocate(12 * kMiB).value();
  EXPECT_EQ(first.data(), data);
  second = {};
  const Memory fresh = stack.source->allocate(10 * kMiB).value();
  EXPECT_EQ(stack.source->retained_bytes(), 0U) << "fresh pages take the room of retained ones";
  EXPECT_EQ(stack.upstream->held_bytes(), 22 * kMiB) << "what is wanted is lent all the same";
  first = {};
  EXPECT_LE(stack.source->retained_bytes() + stack.source->lent_bytes(), 20 * kMiB);
}

TEST(RecyclingSource, GivesEverythingBackWhenTheUpstreamIsShort) {
  const Stack stack;
  stack.source->set_limits({.retained_bytes = 64 * kMiB});
  {
    const Result<Memory> first = stack.source->allocate(30 * kMiB);
    const Result<Memory> second = stack.source->allocate(20 * kMiB);
  }
  EXPECT_EQ(stack.source->retained_bytes(), 50 * kMiB);
  const Result<Memory> large = stack.source->allocate(60 * kMiB);
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_EQ(stack.source->retained_bytes(), 0U);
  EXPECT_FALSE(stack.source->allocate(10 * kMiB));
}

TEST(RecyclingSource, GivesPartsOfALargerPieceAndJoinsThemAgain) {
  const Stack stack;
  stack.source->set_limits({.retained_bytes = 64 * kMiB});
  std::byte* data = stack.source->allocate(20 * kMiB)->data();
  {
    const Result<Memory> first = stack.source->allocate(6 * kMiB);
    const Result<Memory> second = stack.source->allocate(3 * kMiB);
    EXPECT_EQ(first->data(), data);
    EXPECT_EQ(second->data(), data + 6 * kMiB);
    EXPECT_EQ(second->bytes(), 4 * kMiB) << "whole huge pages";
    EXPECT_EQ(stack.source->retained_bytes(), 10 * kMiB);
    EXPECT_TRUE(stack.source->retains(10 * kMiB));
    EXPECT_FALSE(stack.source->retains(10 * kMiB + 1));
    EXPECT_EQ(stack.upstream->held_bytes(), 20 * kMiB);
    second->data()[4 * kMiB - 1] = std::byte{1};
  }
  EXPECT_EQ(stack.source->retained_bytes(), 20 * kMiB);
  EXPECT_EQ(stack.source->allocate(20 * kMiB)->data(), data) << "one piece again";
}

TEST(RecyclingSource, JoinsThePagesOfPiecesThatNoneCanHold) {
  const auto source = RecyclingSource::make(PageSource::make());
  source->set_limits({.retained_bytes = 64 * kMiB});
  {
    const Result<Memory> first = source->allocate(6 * kMiB);
    const Result<Memory> between = source->allocate(kMiB);
    const Result<Memory> second = source->allocate(4 * kMiB);
    for (const Memory* memory : {&*first, &*second}) {
      std::ranges::fill(memory->span(), std::byte{7});
    }
  }
  EXPECT_FALSE(source->retains(12 * kMiB)) << "two huge pages too few";
  EXPECT_TRUE(source->retains(10 * kMiB));
  const Result<Memory> joined = source->allocate(12 * kMiB);
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_EQ(source->retained_bytes(), kMiB) << "what is no whole huge page stays";
  EXPECT_EQ(source->lent_bytes(), 12 * kMiB);
  EXPECT_EQ(std::ranges::count(joined->span(), std::byte{7}), 10 * kMiB) << "the same pages";
  EXPECT_EQ(std::ranges::count(joined->span(), std::byte{0}), 2 * kMiB) << "and fresh ones";
}

// Whether all bytes are `value`; by memcmp, of which a sanitizer makes one check and not one a
// byte.
bool is_filled(std::span<const std::byte> bytes, int value) {
  return bytes[0] == static_cast<std::byte>(value) &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

TEST(RecyclingSource, WhatWasJoinedIsDividedAndJoinedAgain) {
  const auto source = RecyclingSource::make(PageSource::make());
  source->set_limits({.retained_bytes = 64 * kMiB});
  for (int round = 1; round <= 20; ++round) {
    std::vector<Memory> parts;
    for (const std::uint64_t bytes : {2 * kMiB, 6 * kMiB, 4 * kMiB, 2 * kMiB, 8 * kMiB}) {
      Result<Memory> part = source->allocate(bytes);
      ASSERT_TRUE(part) << part.error().message;
      std::memset(part->span().data(), round, part->span().size());
      parts.push_back(std::move(*part));
    }
    const Memory held = std::move(parts[1]);  // so that the others do not lie side by side
    parts.clear();
    const Result<Memory> joined = source->allocate(16 * kMiB);
    ASSERT_TRUE(joined) << joined.error().message;
    EXPECT_TRUE(is_filled(joined->span(), round));
    EXPECT_TRUE(is_filled(held.span(), round));
    EXPECT_EQ(source->retained_bytes(), 0U);
  }
  EXPECT_EQ(source->lent_bytes(), 0U);
}

TEST(RecyclingSource, GivesBackNoMoreOfAPieceThanTheLimitAsks) {
  const Stack stack;
  stack.source->set_limits({.retained_bytes = 64 * kMiB});
  {
    const Result<Memory> memory = stack.source->allocate(20 * kMiB);
  }
  stack.source->set_limits({.retained_bytes = 9 * kMiB});
  EXPECT_EQ(stack.source->retained_bytes(), 8 * kMiB);
  EXPECT_EQ(stack.upstream->held_bytes(), 8 * kMiB);
  {
    const Result<Memory> memory = stack.source->allocate(30 * kMiB);
  }
  EXPECT_LE(stack.source->retained_bytes(), 9 * kMiB);
  EXPECT_GT(stack.source->retained_bytes(), 6 * kMiB);
  EXPECT_EQ(stack.upstream->held_bytes(), stack.source->retained_bytes());
}

TEST(RecyclingSource, SmallRequestsDoNotBreakALargePiece) {
  const Stack stack;
  stack.source->set_limits({.retained_bytes = 64 * kMiB});
  {
    const Result<Memory> memory = stack.source->allocate(20 * kMiB);
  }
  const Result<Memory> small = stack.source->allocate(kMiB);
  EXPECT_EQ(stack.source->retained_bytes(), 20 * kMiB);
}

TEST(RecyclingSource, ReturnsWhatItRetainsAtItsEnd) {
  const auto upstream = LimitingSource::make(PageSource::make(), 64 * kMiB, "b");
  {
    const auto source = RecyclingSource::make(upstream);
    source->set_limits({.retained_bytes = 64 * kMiB});
    const Result<Memory> memory = source->allocate(kMiB);
  }
  EXPECT_EQ(upstream->held_bytes(), 0U);
}

}  // namespace
}  // namespace penstock
