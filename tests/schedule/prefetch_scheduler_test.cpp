#include "swap/schedule/prefetch_scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "tests/schedule/tensor_ids.h"

namespace penstock {
namespace {

/// Memory of so many small slots and so many bytes for large tensors; reads finish at once.
class Table final : public PrefetchEnvironment {
 public:
  explicit Table(std::size_t slots, std::size_t large_room = 0)
      : free_slots(slots), free_large(large_room) {}

  Answer begin_ahead(TensorId tensor, const Before& before) override {
    slot_bytes.push_back(before.slot_bytes);
    if (in_memory.contains(tensor)) {
      return Answer::kNothingToDo;
    }
    if (is_large(tensor)) {
      if (before.large_waits || free_large == 0) {
        return Answer::kNoRoom;
      }
      --free_large;
    } else {
      if (free_slots == 0) {
        return Answer::kNoRoom;
      }
      --free_slots;
    }
    in_memory.insert(tensor);
    begun.push_back(tensor);
    return Answer::kBegun;
  }
  std::uint64_t rewrite_slot_bytes(TensorId tensor) override { return rewrites[tensor]; }
  std::uint64_t reread_slot_bytes(TensorId tensor) override { return rereads[tensor]; }

  void release(TensorId tensor) {
    in_memory.erase(tensor);
    ++(is_large(tensor) ? free_large : free_slots);
  }

  static bool is_large(TensorId tensor) { return to_number(tensor) >= 100; }

  std::size_t free_slots;
  std::size_t free_large;
  std::set<TensorId> in_memory;
  std::vector<TensorId> begun;
  std::vector<std::uint64_t> slot_bytes;  // of each question
  std::map<TensorId, std::uint64_t> rewrites;
  std::map<TensorId, std::uint64_t> rereads;
};

TEST(PrefetchScheduler, ReadsInTheOrderOfUseAsFarAsMemoryReaches) {
  PrefetchScheduler scheduler;
  for (std::uint64_t number = 1; number <= 10; ++number) {
    scheduler.record(TensorId{number});
  }
  scheduler.record(TensorId{1});
  Table table(3);
  EXPECT_EQ(scheduler.run(table), 3u);
  EXPECT_EQ(table.begun, test::tensors({2, 3, 4}));
  EXPECT_EQ(scheduler.run(table), 0u);
  table.release(TensorId{2});
  EXPECT_EQ(scheduler.run(table), 1u);
  EXPECT_EQ(table.begun.back(), TensorId{2}) << "the nearest use that is not in memory comes first";
}

TEST(PrefetchScheduler, SmallTensorsPassALargeOneThatWaits) {
  PrefetchScheduler scheduler;
  for (const TensorId tensor : test::tensors({1, 100, 2, 101, 3})) {
    scheduler.record(tensor);
  }
  scheduler.record(TensorId{1});
  Table table(4, 0);
  EXPECT_EQ(scheduler.run(table), 3u);
  EXPECT_EQ(table.begun, test::tensors({2, 3, 1}));
  table.free_large = 1;
  EXPECT_EQ(scheduler.run(table), 1u);
  EXPECT_EQ(table.begun.back(), TensorId{100})
      << "the earlier large one must not be overtaken by the later";
}

TEST(PrefetchScheduler, DoesNotReadWhatWillBeRewrittenFirst) {
  PrefetchScheduler scheduler;
  for (int i = 0; i < 2; ++i) {
    scheduler.record(TensorId{1});
    scheduler.record(TensorId{2});
    scheduler.record_rewrite(TensorId{1});
    scheduler.record_rewrite(TensorId{2});
  }
  scheduler.record(TensorId{1});
  // Coming: use of 2, rewrite of 1, rewrite of 2, use of 1, use of 2.
  Table table(10);
  scheduler.run(table);
  EXPECT_EQ(table.begun, test::tensors({2}));
}

TEST(PrefetchScheduler, AnnouncedComesBeforePredicted) {
  PrefetchScheduler scheduler;
  for (std::uint64_t number = 1; number <= 5; ++number) {
    scheduler.record(TensorId{number});
  }
  scheduler.record(TensorId{1});
  scheduler.announce(TensorId{9});
  scheduler.announce(TensorId{8});
  Table table(3);
  scheduler.run(table);
  EXPECT_EQ(table.begun, test::tensors({9, 8, 2}));
  EXPECT_EQ(scheduler.run(table), 0u) << "announcements are heard once";
}

TEST(PrefetchScheduler, FarthestIsWhatComesLastOrIsNotInSight) {
  PrefetchScheduler scheduler;
  for (std::uint64_t number = 1; number <= 4; ++number) {
    scheduler.record(TensorId{number});
  }
  scheduler.record(TensorId{1});
  EXPECT_EQ(scheduler.farthest(test::tensors({2})), TensorId{2});
  EXPECT_EQ(scheduler.farthest(test::tensors({4, 2, 3})), TensorId{4});
  EXPECT_EQ(scheduler.farthest(test::tensors({2, 1, 4})), TensorId{1}) << "it was used just now";
  EXPECT_EQ(scheduler.farthest(test::tensors({77, 4, 88, 2})), TensorId{88})
      << "the later of the unseen";
}

TEST(PrefetchScheduler, FarthestLooksNoFartherThanItsLimit) {
  PrefetchScheduler scheduler(PrefetchLimits{.tensors_max = 2});
  for (std::uint64_t number = 1; number <= 4; ++number) {
    scheduler.record(TensorId{number});
  }
  scheduler.record(TensorId{1});
  EXPECT_EQ(scheduler.farthest(test::tensors({4, 3})), TensorId{4});
  EXPECT_EQ(scheduler.farthest(test::tensors({3, 4, 1})), TensorId{1})
      << "4 and 1 are out of sight";
}

TEST(PrefetchScheduler, ReadsNothingAheadOfARandomOrderUntilItRepeats) {
  PrefetchScheduler scheduler;
  const std::size_t tensors = 31;
  const auto use = [&](std::uint64_t number) { scheduler.record(TensorId{number}); };
  for (std::uint64_t number = 0; number < tensors; ++number) {
    use(number);
  }
  // Each next one is another number of places away: no pair comes twice.
  for (std::uint64_t step = 2, at = 0; step < 20; ++step) {
    use(at = (at + step) % tensors);
  }
  Table table(3);
  EXPECT_EQ(scheduler.run(table), 0u);
  for (std::uint64_t number = 0; number < tensors; ++number) {
    use(number);
  }
  use(0);
  EXPECT_EQ(scheduler.run(table), 3u);
  EXPECT_EQ(table.begun, test::tensors({1, 2, 3}));
}

TEST(PrefetchScheduler, NeighboursThatChangePlacesCostNothing) {
  PrefetchScheduler scheduler;
  constexpr std::uint64_t kTensors = 40;
  for (int pass = 0; pass < 10; ++pass) {
    for (std::uint64_t number = 0; number < kTensors; number += 4) {
      const std::uint64_t changes = (number / 4 + static_cast<std::uint64_t>(pass)) % 2;
      for (const std::uint64_t place :
           {0 + changes, 1 - changes, std::uint64_t{2}, std::uint64_t{3}}) {
        scheduler.record(TensorId{number + place});
      }
    }
  }
  Table table(kTensors);
  EXPECT_EQ(scheduler.run(table), kTensors);
}

TEST(PrefetchScheduler, GivesUpLookingAfterSoManyRefusals) {
  PrefetchLimits limits;
  limits.refusals_max = 5;
  PrefetchScheduler scheduler(limits);
  for (std::uint64_t number = 0; number < 50; ++number) {
    scheduler.record(TensorId{number});
  }
  scheduler.record(TensorId{0});
  class Refusing final : public PrefetchEnvironment {
   public:
    Answer begin_ahead(TensorId, const Before&) override {
      ++asked;
      return Answer::kNoRoom;
    }
    std::uint64_t rewrite_slot_bytes(TensorId) override { return 0; }
    std::uint64_t reread_slot_bytes(TensorId) override { return 0; }
    int asked = 0;
  } refusing;
  EXPECT_EQ(scheduler.run(refusing), 0u);
  EXPECT_EQ(refusing.asked, 5);
}

TEST(PrefetchScheduler, SaysWhatIsMadeBeforeTheUse) {
  PrefetchScheduler scheduler;
  for (int step = 0; step < 2; ++step) {
    scheduler.record(TensorId{1});
    scheduler.record_rewrite(TensorId{4});
    scheduler.record_rewrite(TensorId{5});
    scheduler.record(TensorId{2});
    scheduler.record_rewrite(TensorId{6});
    scheduler.record(TensorId{3});
  }
  scheduler.record(TensorId{1});
  Table table(2);
  table.rewrites = {{TensorId{4}, 100}, {TensorId{6}, 20}};  // 5 in place
  EXPECT_EQ(scheduler.run(table), 2u);
  EXPECT_EQ(table.begun, (std::vector{TensorId{2}, TensorId{3}}));
  EXPECT_EQ(std::vector(table.slot_bytes.begin(), table.slot_bytes.begin() + 2),
            (std::vector<std::uint64_t>{100, 120}));
}

/// From the caller's memory, say: 4 is read back once behind each rewrite.
TEST(PrefetchScheduler, SaysWhatIsReadBackBeforeTheUse) {
  PrefetchScheduler scheduler;
  for (int step = 0; step < 2; ++step) {
    scheduler.record(TensorId{1});
    scheduler.record_rewrite(TensorId{4});
    scheduler.record(TensorId{4});
    scheduler.record(TensorId{4});
    scheduler.record(TensorId{2});
    scheduler.record_rewrite(TensorId{4});
    scheduler.record(TensorId{4});
    scheduler.record(TensorId{3});
  }
  scheduler.record(TensorId{1});
  Table table(2);
  table.rereads = {{TensorId{4}, 100}};
  EXPECT_EQ(scheduler.run(table), 2u);
  EXPECT_EQ(table.begun, (std::vector{TensorId{2}, TensorId{3}}));
  EXPECT_EQ(std::vector(table.slot_bytes.begin(), table.slot_bytes.begin() + 2),
            (std::vector<std::uint64_t>{100, 200}));
}

/// A drive that moves one tensor a tick under a consumer that needs one a tick: after the first
/// step nothing is waited for, with memory for a tenth of the model.
TEST(PrefetchScheduler, KeepsAConsumerBusyFromTheSecondStepOn) {
  constexpr std::uint64_t kTensors = 40;
  PrefetchScheduler scheduler;
  Table table(4);
  std::size_t stalls = 0;
  for (int step = 0; step < 4; ++step) {
    for (std::uint64_t number = 0; number < kTensors; ++number) {
      const TensorId tensor{number};
      scheduler.record(tensor);
      if (!table.in_memory.contains(tensor)) {
        ++stalls;
        table.begin_ahead(tensor, {});
      }
      table.release(tensor);
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
