#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "swap/schedule/prefetch_scheduler.h"
#include "tests/property/step.h"

namespace penstock {
namespace {

using Key = AccessTrace::Key;

enum Kind : std::uint32_t { kUse, kRewrite, kAnnounce, kRun, kFree };

constexpr Key kTensors = 12;
constexpr Key kLargeFrom = 9;

/// Slots for small tensors and room for some large ones; reads are done as soon
/// as they are begun. Notes every question, so that a test can judge them.
class Memory final : public PrefetchSurroundings {
 public:
  Memory(std::size_t slots, std::size_t large) : free_slots_(slots), free_large_(large) {}

  Answer begin_ahead(Key key, bool large_waits) override {
    RC_ASSERT(!stopped);
    asked.push_back(key);
    const bool large = key >= kLargeFrom;
    if (held.contains(key)) {
      return Answer::kNothingToDo;
    }
    if (stop_at == asked.size()) {
      stopped = true;
      return Answer::kStop;
    }
    std::size_t& room = large ? free_large_ : free_slots_;
    if (room == 0 || (large && large_waits)) {
      ++refused;
      return Answer::kNoRoom;
    }
    --room;
    held.insert(key);
    ++begun;
    return Answer::kBegun;
  }
  void free(Key key) {
    if (held.erase(key) != 0) {
      ++(key >= kLargeFrom ? free_large_ : free_slots_);
    }
  }
  void begin_run() {
    asked.clear();
    refused = 0;
    begun = 0;
    stopped = false;
  }

  std::set<Key> held;
  std::vector<Key> asked;
  std::size_t refused = 0;
  std::size_t begun = 0;
  std::size_t stop_at = 0;  // the question that is answered with kStop; 0: none
  bool stopped = false;

 private:
  std::size_t free_slots_;
  std::size_t free_large_;
};

struct Bounds {
  std::size_t slots = 0;
  std::size_t large = 0;
  PrefetchLimits limits;
};

void check_run(PrefetchScheduler& scheduler, Memory& memory, const Bounds& bounds,
               const std::set<Key>& known) {
  memory.begin_run();
  RC_ASSERT(scheduler.run(memory) == memory.begun);
  RC_ASSERT(memory.refused <= bounds.limits.refusals_max);
  std::size_t large = 0;
  for (const Key key : memory.held) {
    large += key >= kLargeFrom ? 1 : 0;
  }
  RC_ASSERT(large <= bounds.large);
  RC_ASSERT(memory.held.size() - large <= bounds.slots);
  for (const Key key : memory.asked) {
    RC_ASSERT(known.contains(key));
  }
}

RC_GTEST_PROP(PrefetchSchedulerProperty, StaysWithinMemoryAndReadsOnlyWhatItKnows, ()) {
  Bounds bounds;
  bounds.slots = *rc::gen::inRange<std::size_t>(0, 6);
  bounds.large = *rc::gen::inRange<std::size_t>(0, 3);
  bounds.limits.tensors_max = *rc::gen::inRange<std::size_t>(1, 64);
  bounds.limits.refusals_max = *rc::gen::inRange<std::size_t>(1, 8);
  PrefetchScheduler scheduler(bounds.limits);
  Memory memory(bounds.slots, bounds.large);
  memory.stop_at = *rc::gen::inRange<std::size_t>(0, 20);
  std::set<Key> known;
  for (const Step& step : *steps({kUse, kUse, kUse, kRewrite, kAnnounce, kRun, kRun, kFree, kFree},
                                 rc::gen::inRange<std::uint64_t>(0, kTensors))) {
    const Key key = step.amount;
    if (step.kind == kUse) {
      scheduler.record(key);
      known.insert(key);
    } else if (step.kind == kRewrite) {
      scheduler.record_rewrite(key);
    } else if (step.kind == kAnnounce) {
      scheduler.announce(key);
      known.insert(key);
    } else if (step.kind == kRun) {
      check_run(scheduler, memory, bounds, known);
    } else {
      memory.free(key);
    }
    if (!known.empty()) {
      const std::vector<Key> all(known.begin(), known.end());
      RC_ASSERT(known.contains(scheduler.farthest(all)));
    }
  }
}

/// Everything that is coming, in its order, but for what will be rewritten
/// before that use.
RC_GTEST_PROP(PrefetchSchedulerProperty, OffersWhatComesUnlessItIsRewrittenFirst, ()) {
  PrefetchScheduler scheduler;
  AccessTrace shadow;
  for (const Step& step :
       *steps({kUse, kUse, kRewrite}, rc::gen::inRange<std::uint64_t>(0, kTensors))) {
    step.kind == kUse ? void(scheduler.record(step.amount)) : scheduler.record_rewrite(step.amount);
    shadow.record(step.amount * 2 + (step.kind == kUse ? 0 : 1));
  }
  std::vector<Key> expected;
  std::set<Key> rewritten;
  for (std::size_t ahead = 0; ahead < shadow.horizon(); ++ahead) {
    const Key event = shadow.upcoming(ahead).value();
    if (event % 2 == 1) {
      rewritten.insert(event / 2);
    } else if (!rewritten.contains(event / 2)) {
      expected.push_back(event / 2);
    }
  }
  Memory memory(kTensors, kTensors);
  for (Key key = 0; key < kTensors; ++key) {
    memory.held.insert(key);  // nothing to do for any: all of them are offered
  }
  RC_ASSERT(scheduler.run(memory) == 0U);
  RC_ASSERT(memory.asked == expected);
}

}  // namespace
}  // namespace penstock
