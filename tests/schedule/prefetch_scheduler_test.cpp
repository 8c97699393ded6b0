#include "swap/schedule/prefetch_scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace penstock {
namespace {

using Key = AccessTrace::Key;

/// Memory of so many small slots and so many bytes for large tensors; reads finish at once.
class Table final : public PrefetchSurroundings {
 public:
  explicit Table(std::size_t slots, std::size_t large_room = 0)
      : free_slots(slots), free_large(large_room) {}

  Answer begin_ahead(Key key, bool large_waits) override {
    if (in_memory.contains(key)) {
      return Answer::kNothingToDo;
    }
    if (is_large(key)) {
      if (large_waits || free_large == 0) {
        return Answer::kNoRoom;
      }
      --free_large;
    } else {
      if (free_slots == 0) {
        return Answer::kNoRoom;
      }
      --free_slots;
    }
    in_memory.insert(key);
    begun.push_back(key);
    return Answer::kBegun;
  }

  void release(Key key) {
    in_memory.erase(key);
    ++(is_large(key) ? free_large : free_slots);
  }

  static bool is_large(Key key) { return key >= 100; }

  std::size_t free_slots;
  std::size_t free_large;
  std::set<Key> in_memory;
  std::vector<Key> begun;
};

TEST(PrefetchScheduler, ReadsInTheOrderOfUseAsFarAsMemoryReaches) {
  PrefetchScheduler scheduler;
  for (Key key = 1; key <= 10; ++key) {
    scheduler.record(key);
  }
  scheduler.record(1);
  Table table(3);
  EXPECT_EQ(scheduler.run(table), 3u);
  EXPECT_EQ(table.begun, (std::vector<Key>{2, 3, 4}));
  EXPECT_EQ(scheduler.run(table), 0u);
  table.release(2);
  EXPECT_EQ(scheduler.run(table), 1u);
  EXPECT_EQ(table.begun.back(), 2u) << "the nearest use that is not in memory comes first";
}

TEST(PrefetchScheduler, SmallTensorsPassALargeOneThatWaits) {
  PrefetchScheduler scheduler;
  const std::vector<Key> order{1, 100, 2, 101, 3};
  for (const Key key : order) {
    scheduler.record(key);
  }
  scheduler.record(1);
  Table table(4, 0);
  EXPECT_EQ(scheduler.run(table), 3u);
  EXPECT_EQ(table.begun, (std::vector<Key>{2, 3, 1}));
  table.free_large = 1;
  EXPECT_EQ(scheduler.run(table), 1u);
  EXPECT_EQ(table.begun.back(), 100u) << "the earlier large one must not be overtaken by the later";
}

TEST(PrefetchScheduler, DoesNotReadWhatWillBeRewrittenFirst) {
  PrefetchScheduler scheduler;
  for (int i = 0; i < 2; ++i) {
    scheduler.record(1);
    scheduler.record(2);
    scheduler.record_rewrite(1);
    scheduler.record_rewrite(2);
  }
  scheduler.record(1);
  // Coming: use of 2, rewrite of 1, rewrite of 2, use of 1, use of 2.
  Table table(10);
  scheduler.run(table);
  EXPECT_EQ(table.begun, (std::vector<Key>{2}));
}

TEST(PrefetchScheduler, AnnouncedComesBeforeForetold) {
  PrefetchScheduler scheduler;
  for (Key key = 1; key <= 5; ++key) {
    scheduler.record(key);
  }
  scheduler.record(1);
  scheduler.announce(9);
  scheduler.announce(8);
  Table table(3);
  scheduler.run(table);
  EXPECT_EQ(table.begun, (std::vector<Key>{9, 8, 2}));
  EXPECT_EQ(scheduler.run(table), 0u) << "announcements are heard once";
}

TEST(PrefetchScheduler, FarthestIsWhatComesLastOrIsNotInSight) {
  PrefetchScheduler scheduler;
  for (Key key = 1; key <= 4; ++key) {
    scheduler.record(key);
  }
  scheduler.record(1);
  EXPECT_EQ(scheduler.farthest(std::vector<Key>{2}), 2u);
  EXPECT_EQ(scheduler.farthest(std::vector<Key>{4, 2, 3}), 4u);
  EXPECT_EQ(scheduler.farthest(std::vector<Key>{2, 1, 4}), 1u) << "it was used just now";
  EXPECT_EQ(scheduler.farthest(std::vector<Key>{77, 4, 88, 2}), 88u) << "the later of the unseen";
}

TEST(PrefetchScheduler, FarthestLooksNoFartherThanItsLimit) {
  PrefetchScheduler scheduler(PrefetchLimits{.tensors_max = 2});
  for (Key key = 1; key <= 4; ++key) {
    scheduler.record(key);
  }
  scheduler.record(1);
  EXPECT_EQ(scheduler.farthest(std::vector<Key>{4, 3}), 4u);
  EXPECT_EQ(scheduler.farthest(std::vector<Key>{3, 4, 1}), 1u) << "4 and 1 are out of sight";
}

TEST(PrefetchScheduler, GivesUpLookingAfterSoManyRefusals) {
  PrefetchLimits limits;
  limits.refusals_max = 5;
  PrefetchScheduler scheduler(limits);
  for (Key key = 0; key < 50; ++key) {
    scheduler.record(key);
  }
  scheduler.record(0);
  class Refusing final : public PrefetchSurroundings {
   public:
    Answer begin_ahead(Key, bool) override {
      ++asked;
      return Answer::kNoRoom;
    }
    int asked = 0;
  } refusing;
  EXPECT_EQ(scheduler.run(refusing), 0u);
  EXPECT_EQ(refusing.asked, 5);
}

/// A drive that moves one tensor a tick under a consumer that needs one a tick: after the first
/// step nothing is waited for, with memory for a tenth of the model.
TEST(PrefetchScheduler, KeepsAConsumerBusyFromTheSecondStepOn) {
  constexpr Key kTensors = 40;
  PrefetchScheduler scheduler;
  Table table(4);
  std::size_t stalls = 0;
  for (int step = 0; step < 4; ++step) {
    for (Key key = 0; key < kTensors; ++key) {
      scheduler.record(key);
      if (!table.in_memory.contains(key)) {
        ++stalls;
        table.begin_ahead(key, false);
      }
      table.release(key);
      scheduler.run(table);
    }
    if (step == 0) {
      EXPECT_EQ(stalls, kTensors);
      stalls = 0;
    }
  }
  EXPECT_LE(stalls, 1u);
}

}  // namespace
}  // namespace penstock
