#include "swap/engine/memory_content.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace penstock {
namespace {

constexpr Presence kAll[] = {Presence::kAbsent, Presence::kReading, Presence::kCopying,
                             Presence::kArriving, Presence::kCurrent};

TEST(MemoryContentTest, FollowsTheTable) {
  using enum Presence;
  const std::set<std::pair<Presence, Presence>> allowed = {
      {kAbsent, kAbsent},   {kAbsent, kReading},   {kAbsent, kArriving}, {kAbsent, kCurrent},
      {kReading, kAbsent},  {kReading, kCurrent},  {kCopying, kAbsent},  {kCopying, kCurrent},
      {kArriving, kAbsent}, {kArriving, kCurrent}, {kCurrent, kAbsent},  {kCurrent, kCopying},
      {kCurrent, kCurrent}};
  for (const Presence from : kAll) {
    for (const Presence to : kAll) {
      EXPECT_EQ(may_follow(from, to), allowed.contains({from, to}))
          << static_cast<int>(from) << " to " << static_cast<int>(to);
    }
  }
}

TEST(MemoryContentTest, AReadGoesFromAbsentToCurrent) {
  MemoryContent content;
  EXPECT_TRUE(content.is_absent());
  const std::uint64_t fill = content.begin(Presence::kReading);
  EXPECT_EQ(content.fill(), fill);
  EXPECT_TRUE(content.is_coming());
  content.become_current(7);
  EXPECT_TRUE(content.is_current());
  EXPECT_EQ(content.generation, 7);
  content.become_absent();
  EXPECT_EQ(content.generation, 0);
}

TEST(MemoryContentTest, EachFillHasANumberOfItsOwn) {
  MemoryContent content;
  const std::uint64_t first = content.begin(Presence::kReading);
  content.become_absent();
  EXPECT_NE(content.begin(Presence::kArriving), first);
  EXPECT_TRUE(content.is_arriving());
}

TEST(MemoryContentDeathTest, WhatMayNotFollowStopsTheProcess) {
  MemoryContent content;
  content.begin(Presence::kReading);
  EXPECT_DEATH(content.begin(Presence::kReading), "a tensor's memory goes from state 1 to 1");
  EXPECT_DEATH(content.begin(Presence::kCurrent), "begins to come");
}

}  // namespace
}  // namespace penstock
