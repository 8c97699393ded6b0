#include "swap/plan/slot_counts.h"

#include <gtest/gtest.h>

#include <random>

#include "alloc/bytes.h"

namespace penstock {
namespace {

std::uint64_t bytes_of(const std::vector<SlotDemand>& classes, const SlotCounts& counts) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    bytes += classes[i].slot_bytes * counts.slots[i];
  }
  return bytes;
}

TEST(SlotCountsTest, AWholeModelGetsASlotATensor) {
  const std::vector<SlotDemand> classes{{kMiB, 2}, {2 * kMiB, 1}};
  const SlotCounts counts = count_slots(classes, std::vector<std::uint32_t>{0, 1, 0}, 100 * kMiB);
  EXPECT_EQ(counts.slots, (std::vector<std::uint32_t>{2, 1})) << "never more slots than tensors";
  EXPECT_EQ(counts.window_tensors, 3U);
}

TEST(SlotCountsTest, FollowsTheOrderOfUse) {
  // Per layer: q k v o gate up down = 8 4 4 8 12 12 12 MiB, and 60 MiB hold exactly one layer.
  const std::vector<SlotDemand> classes{{4 * kMiB, 56}, {8 * kMiB, 56}, {12 * kMiB, 84}};
  std::vector<std::uint32_t> order;
  for (int layer = 0; layer < 28; ++layer) {
    order.insert(order.end(), {1, 0, 0, 1, 2, 2, 2});
  }
  const SlotCounts counts = count_slots(classes, order, 60 * kMiB);
  EXPECT_EQ(counts.slots, (std::vector<std::uint32_t>{2, 2, 3}));
  EXPECT_EQ(counts.window_tensors, 7U);
}

TEST(SlotCountsTest, OneSlotEachWhereTwoDoNotFit) {
  const std::vector<SlotDemand> classes{{4 * kMiB, 9}, {8 * kMiB, 9}};
  const SlotCounts counts = count_slots(classes, std::vector<std::uint32_t>{0, 1, 0, 1}, 12 * kMiB);
  EXPECT_EQ(counts.slots, (std::vector<std::uint32_t>{1, 1}));
}

TEST(SlotCountsTest, NoClassesNeedNothing) {
  const SlotCounts counts = count_slots({}, {}, 0);
  EXPECT_TRUE(counts.slots.empty());
  EXPECT_EQ(counts.window_tensors, 0U);
}

TEST(SlotCountsDeathTest, OneSlotOfEachMustFit) {
  const std::vector<SlotDemand> classes{{4 * kMiB, 9}};
  EXPECT_DEATH(count_slots(classes, std::vector<std::uint32_t>{0}, kMiB), "one slot of each");
}

// The definition, tried out naively: no longer window fits, and every window has its slots.
TEST(SlotCountsTest, TheWindowIsTheLongestThatFits) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<SlotDemand> classes(1 + random() % 4);
    std::uint64_t one_each = 0;
    for (SlotDemand& demand : classes) {
      demand.slot_bytes = kBlockBytes * (1 + random() % 50);
      one_each += demand.slot_bytes;
    }
    std::vector<std::uint32_t> order(classes.size() + random() % 40);
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = static_cast<std::uint32_t>(i < classes.size() ? i : random() % classes.size());
      ++classes[order[i]].tensors;
    }
    const std::uint64_t budget = one_each + random() % (4 * one_each);
    const SlotCounts counts = count_slots(classes, order, budget);
    EXPECT_LE(bytes_of(classes, counts), budget);
    for (std::size_t begin = 0; begin < order.size(); ++begin) {
      std::vector<std::uint32_t> inside(classes.size(), 0);
      const std::size_t end = std::min<std::size_t>(order.size(), begin + counts.window_tensors);
      for (std::size_t i = begin; i < end; ++i) {
        ++inside[order[i]];
      }
      for (std::size_t c = 0; c < classes.size(); ++c) {
        ASSERT_LE(inside[c], counts.slots[c]);
      }
    }
    for (std::size_t c = 0; c < classes.size(); ++c) {
      EXPECT_GE(counts.slots[c], 1U);
      EXPECT_LE(counts.slots[c], classes[c].tensors);
    }
  }
}

}  // namespace
}  // namespace penstock
