#include "swap/plan/pinned_need.h"

#include <gtest/gtest.h>

#include "alloc/bytes.h"
#include "swap/plan/placement.h"

namespace penstock {
namespace {

using Held = std::vector<HeldBuffers>;
using Classes = std::vector<ClassPlan>;

TEST(PinnedNeed, ABufferTakesASlotThatWastesLittle) {
  const Classes classes{{4 * kMiB, 2}, {kMiB, 3}};
  EXPECT_TRUE(holds_all(Held{{kMiB, 3}, {4 * kMiB, 2}}, {classes, 11 * kMiB}));
  EXPECT_TRUE(holds_all(Held{{kMiB - kMiB / 8, 3}}, {classes, 11 * kMiB}));
  EXPECT_FALSE(holds_all(Held{{kMiB - kMiB / 8 - kBlockBytes, 1}}, {classes, 11 * kMiB}));
  EXPECT_FALSE(holds_all(Held{{kMiB, 4}}, {classes, 11 * kMiB})) << "no slot of 4 MiB is one of 1";
}

TEST(PinnedNeed, WhatClassesLeaveHoldsBuffersOfTheirOwn) {
  const Classes classes{{kMiB, 3}};
  EXPECT_TRUE(holds_all(Held{{kMiB, 4}, {2 * kMiB, 1}}, {classes, 6 * kMiB}));
  EXPECT_FALSE(holds_all(Held{{kMiB, 4}, {2 * kMiB, 1}}, {classes, 6 * kMiB - 1}));
  EXPECT_FALSE(holds_all({}, {classes, 2 * kMiB})) << "the classes themselves do not fit";
}

TEST(PinnedNeed, TheNextClassHelpsOut) {
  const Classes classes{{kMiB, 1}, {kMiB + kMiB / 8, 1}};
  EXPECT_TRUE(holds_all(Held{{kMiB, 2}}, {classes, 3 * kMiB}));
}

TEST(PinnedNeed, FindsTheSmallestBudgetWhosePlanHoldsAll) {
  std::vector<PlanTensor> tensors;
  for (unsigned i = 0; i < 40; ++i) {
    PlanTensor& tensor = tensors.emplace_back();
    tensor.name = "t";
    tensor.bytes = i % 4 == 0 ? 3 * kMiB : kMiB;
  }
  const auto pool_of = [&](std::uint64_t bytes) -> std::optional<PlannedPool> {
    Budgets budgets;
    budgets.max_pinned_bytes = bytes;
    budgets.max_pinned_given = true;
    budgets.ram_given = true;
    const Result<Placement> placement = place_tensors(tensors, {}, budgets);
    return placement ? std::optional(PlannedPool{placement->pool(), bytes}) : std::nullopt;
  };
  const Held held{{kMiB, 9}, {3 * kMiB, 3}};
  const std::optional<std::uint64_t> needed = pinned_bytes_for(held, pool_of);
  ASSERT_TRUE(needed);
  EXPECT_GE(*needed, 18 * kMiB);
  EXPECT_LE(*needed, 26 * kMiB);
  EXPECT_TRUE(holds_all(held, *pool_of(*needed)));
  EXPECT_FALSE(holds_all(held, *pool_of(*needed - kMiB)));
}

TEST(PinnedNeed, APlanThatAlwaysRefusesNeedsNoValue) {
  EXPECT_EQ(
      pinned_bytes_for(Held{{kMiB, 1}}, [](std::uint64_t) { return std::optional<PlannedPool>(); }),
      std::nullopt);
}

}  // namespace
}  // namespace penstock
