#include "swap/plan/budgets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "alloc/bytes.h"
#include "swap/plan/chunk_shape.h"
#include "tests/plan/plan_fixture.h"

namespace penstock {
namespace {

BudgetFacts facts(std::uint64_t available, std::uint32_t ranks = 1,
                  std::uint64_t slot = 12 * kMiB) {
  BudgetFacts facts;
  facts.mem_available_bytes = available;
  facts.ranks_on_node = ranks;
  facts.largest_class_slot_bytes = slot;
  return facts;
}

EngineConfig sharing(std::uint64_t memory_bytes) {
  EngineConfig config;
  config.memory_bytes = memory_bytes;
  return config;
}

TEST(BudgetsTest, ResidentsGetWhatPinnedMemoryLeaves) {
  const Budgets budgets = resolve_budgets(sharing(3 * kGiB), facts(24 * kGiB));
  EXPECT_EQ(budgets.memory_bytes, 3 * kGiB);
  EXPECT_EQ(budgets.max_pinned_bytes, 64 * kMiB);
  EXPECT_EQ(budgets.ram_bytes, 3 * kGiB - 64 * kMiB);
  EXPECT_FALSE(budgets.ram_given);
  EXPECT_FALSE(budgets.max_pinned_given);
}

TEST(BudgetsTest, ItIsCappedAtAQuarterOfWhatIsAvailablePerRank) {
  const Budgets budgets = resolve_budgets(sharing(3 * kGiB), facts(8 * kGiB, 2));
  EXPECT_EQ(budgets.quarter_bytes, kGiB);
  EXPECT_EQ(budgets.memory_bytes, kGiB);
  EXPECT_EQ(budgets.ram_bytes, kGiB - 64 * kMiB);
}

TEST(BudgetsTest, WithoutMemoryToShareNothingIsKept) {
  for (const std::uint64_t shared : {std::uint64_t{0}, kMiB}) {
    const Budgets budgets = resolve_budgets(sharing(shared), facts(24 * kGiB));
    EXPECT_EQ(budgets.ram_bytes, 0U);
    EXPECT_EQ(budgets.max_pinned_bytes, 64 * kMiB);
  }
}

TEST(BudgetsTest, PinnedHoldsTwoSlotsOfTheLargestClassWithinTheQuarter) {
  const EngineConfig config = sharing(2 * kGiB);
  EXPECT_EQ(resolve_budgets(config, facts(24 * kGiB, 1, 112 * kMiB)).max_pinned_bytes, 224 * kMiB);
  EXPECT_EQ(resolve_budgets(config, facts(400 * kMiB, 1, 112 * kMiB)).max_pinned_bytes, 100 * kMiB);
  EXPECT_EQ(resolve_budgets(config, facts(24 * kGiB, 1, 0)).max_pinned_bytes, 64 * kMiB);
}

TEST(BudgetsTest, GivenNumbersAreTakenAsTheyAre) {
  EngineConfig config = sharing(2 * kGiB);
  config.max_pinned_bytes = kGiB;
  config.ram_bytes = 0;
  const Budgets budgets = resolve_budgets(config, facts(2 * kGiB));
  EXPECT_EQ(budgets.max_pinned_bytes, kGiB) << "even beyond the quarter";
  EXPECT_EQ(budgets.ram_bytes, 0U);
  EXPECT_TRUE(budgets.ram_given);
  EXPECT_TRUE(budgets.max_pinned_given);
}

TEST(BudgetsTest, NumbersThatMeanNoLimitDoNotWrap) {
  const EngineConfig config = sharing(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(resolve_budgets(config, facts(8 * kGiB)).memory_bytes, 2 * kGiB);
}

TEST(BudgetsTest, AMachineThatDoesNotTellHasNoCap) {
  EXPECT_EQ(resolve_budgets(sharing(2'000'000'000), facts(0)).memory_bytes, 2'000'000'000U);
}

std::uint64_t left_by_devices(std::uint64_t max_pinned_bytes, std::uint64_t devices) {
  return max_pinned_bytes - device_chunks(max_pinned_bytes, devices).bytes() * devices;
}

TEST(BudgetsTest, TheSmallestValueLeavesThePoolItsShareBesideDevices) {
  EXPECT_EQ(test::smallest_value(Budgets().smallest_clause(5 * kMiB)), 5 * kMiB);
  for (const std::uint64_t devices : {1U, 2U, 3U, 8U, 20U}) {
    for (const std::uint64_t pool : {4 * kMiB, 5 * kMiB + kBlockBytes, 30 * kMiB, kGiB}) {
      Budgets budgets;
      budgets.max_pinned_bytes = 16 * kMiB;
      budgets.hold_for_devices(2 * kMiB, devices);
      EXPECT_EQ(budgets.max_pinned_bytes, 14 * kMiB);
      const std::uint64_t smallest = test::smallest_value(budgets.smallest_clause(pool));
      EXPECT_GE(left_by_devices(smallest, devices), pool);
      EXPECT_GE(device_chunks(smallest, devices).bytes(), kLeastDeviceBytes) << "can be opened";
      const std::uint64_t least = std::max(pool, pinned_bytes_for_devices(devices));
      for (std::uint64_t less = least; less < smallest; less += kBlockBytes) {
        ASSERT_LT(left_by_devices(less, devices), pool) << less;
      }
    }
  }
}

TEST(BudgetsTest, WhatIsWrittenGivesThePoolWhatItHas) {
  for (const std::uint64_t devices : {0U, 1U, 3U}) {
    for (const std::uint64_t given : {5 * kMiB + kBlockBytes, 64 * kMiB, kGiB}) {
      Budgets budgets;
      budgets.max_pinned_bytes = given;
      budgets.hold_for_devices(given - left_by_devices(given, devices), devices);
      EXPECT_EQ(budgets.written_pinned_bytes(), given);
      budgets.max_pinned_bytes += 3 * kMiB;  // raised for a rule
      EXPECT_GE(left_by_devices(budgets.written_pinned_bytes(), devices), budgets.max_pinned_bytes);
    }
  }
}

TEST(BudgetsTest, ThisMachineTells) {
  EXPECT_GT(read_mem_available_bytes(), 0U);
}

}  // namespace
}  // namespace penstock
