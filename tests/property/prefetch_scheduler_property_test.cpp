#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "swap/schedule/prefetch_scheduler.h"
#include "tests/property/step.h"

namespace penstock {
namespace {

enum Kind : std::uint32_t { kUse, kRewrite, kAnnounce, kRun, kFree };

constexpr std::uint64_t kTensors = 12;
constexpr std::uint64_t kLargeFrom = 9;

bool is_large(TensorId tensor) {
  return to_number(tensor) >= kLargeFrom;
}

/// Slots for small tensors and room for some large ones; reads are done as soon
/// as they are begun. Notes every question, so that a test can judge them.
class Memory final : public PrefetchEnvironment {
 public:
  Memory(std::size_t slots, std::size_t large) : free_slots_(slots), free_large_(large) {}

  Answer begin_ahead(TensorId tensor, const Before& before) override {
    RC_ASSERT(!stopped);
    asked.push_back(tensor);
    const bool large = is_large(tensor);
    if (held.contains(tensor)) {
      return Answer::kNothingToDo;
    }
    if (stop_at == asked.size()) {
      stopped = true;
      return Answer::kStop;
    }
    std::size_t& room = large ? free_large_ : free_slots_;
    if (room == 0 || (large && before.large_waits)) {
      ++refused;
      return Answer::kNoRoom;
    }
    --room;
    held.insert(tensor);
    ++begun;
    return Answer::kBegun;
  }
  std::uint64_t rewrite_slot_bytes(TensorId tensor) override { return to_number(tensor); }
  std::uint64_t reread_slot_bytes(TensorId tensor) override { return to_number(tensor); }
  void free(TensorId tensor) {
    if (held.erase(tensor) != 0) {
      ++(is_large(tensor) ? free_large_ : free_slots_);
    }
  }
  void begin_run() {
    asked.clear();
    refused = 0;
    begun = 0;
    stopped = false;
  }

  std::set<TensorId> held;
  std::vector<TensorId> asked;
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
               const std::set<TensorId>& known) {
  memory.begin_run();
  RC_ASSERT(scheduler.run(memory) == memory.begun);
  RC_ASSERT(memory.refused <= bounds.limits.refusals_max);
  std::size_t large = 0;
  for (const TensorId tensor : memory.held) {
    large += is_large(tensor) ? 1U : 0U;
  }
  RC_ASSERT(large <= bounds.large);
  RC_ASSERT(memory.held.size() - large <= bounds.slots);
  for (const TensorId tensor : memory.asked) {
    RC_ASSERT(known.contains(tensor));
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
  std::set<TensorId> known;
  for (const Step& step : *steps({kUse, kUse, kUse, kRewrite, kAnnounce, kRun, kRun, kFree, kFree},
                                 rc::gen::inRange<std::uint64_t>(0, kTensors))) {
    const TensorId tensor{step.amount};
    if (step.kind == kUse) {
      scheduler.record(tensor);
      known.insert(tensor);
    } else if (step.kind == kRewrite) {
      scheduler.record_rewrite(tensor);
    } else if (step.kind == kAnnounce) {
      scheduler.announce(tensor);
      known.insert(tensor);
    } else if (step.kind == kRun) {
      check_run(scheduler, memory, bounds, known);
    } else {
      memory.free(tensor);
    }
    if (!known.empty()) {
      const std::vector<TensorId> all(known.begin(), known.end());
      RC_ASSERT(known.contains(scheduler.farthest(all)));
    }
  }
}

/// Everything that is coming, in its order, but for what will be rewritten
/// before that use; as far as the prediction has deserved.
RC_GTEST_PROP(PrefetchSchedulerProperty, OffersWhatComesUnlessItIsRewrittenFirst, ()) {
  PrefetchScheduler scheduler;
  AccessTrace shadow;
  std::size_t reach = PrefetchLimits().tensors_max;
  for (const Step& step :
       *steps({kUse, kUse, kRewrite}, rc::gen::inRange<std::uint64_t>(0, kTensors))) {
    const TensorId tensor{step.amount};
    step.kind == kUse ? void(scheduler.record(tensor)) : scheduler.record_rewrite(tensor);
    const bool predicts = shadow.horizon() > 0;
    if (shadow.record(step.amount * 2 + (step.kind == kUse ? 0 : 1))) {
      reach = std::min(std::max<std::size_t>(16 * reach, 8), PrefetchLimits().tensors_max);
    } else if (predicts) {
      reach /= 2;
    }
  }
  std::vector<TensorId> expected;
  std::set<TensorId> rewritten;
  for (std::size_t ahead = 0; ahead < std::min(reach, shadow.horizon()); ++ahead) {
    const AccessTrace::Key event = shadow.upcoming(ahead).value();
    const TensorId tensor{event / 2};
    if (event % 2 == 1) {
      rewritten.insert(tensor);
    } else if (!rewritten.contains(tensor)) {
      expected.push_back(tensor);
    }
  }
  Memory memory(kTensors, kTensors);
  for (std::uint64_t number = 0; number < kTensors; ++number) {
    memory.held.insert(TensorId{number});  // nothing to do for any: all of them are offered
  }
  RC_ASSERT(scheduler.run(memory) == 0U);
  RC_ASSERT(memory.asked == expected);
}

}  // namespace
}  // namespace penstock
