#include "swap/schedule/access_trace.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace penstock {
namespace {

using Key = AccessTrace::Key;

std::vector<Key> predicted(const AccessTrace& trace, std::size_t count) {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < count; ++i) {
    if (const auto key = trace.upcoming(i)) {
      keys.push_back(*key);
    }
  }
  return keys;
}

std::size_t record_all(AccessTrace& trace, const std::vector<Key>& keys) {
  std::size_t right = 0;
  for (const Key key : keys) {
    right += trace.record(key) ? 1u : 0u;
  }
  return right;
}

// Forward, then backward, of a model whose first and last tensor are the same.
std::vector<Key> step(std::size_t layers) {
  std::vector<Key> keys{0};
  for (Key key = 1; key <= layers; ++key) {
    keys.push_back(key);
  }
  keys.push_back(0);
  std::vector<Key> all = keys;
  all.insert(all.end(), keys.rbegin(), keys.rend());
  return all;
}

TEST(AccessTrace, KnowsNothingAtFirst) {
  AccessTrace trace;
  EXPECT_EQ(trace.upcoming(0), std::nullopt);
  EXPECT_FALSE(trace.record(7));
  EXPECT_EQ(trace.upcoming(0), std::nullopt);
  EXPECT_EQ(trace.horizon(), 0u);
}

TEST(AccessTrace, PredictsTheSecondStepFromTheFirst) {
  AccessTrace trace;
  const std::vector<Key> keys = step(20);
  record_all(trace, keys);
  trace.record(keys[0]);
  trace.record(keys[1]);
  EXPECT_EQ(predicted(trace, 5), std::vector<Key>(keys.begin() + 2, keys.begin() + 7));
  EXPECT_EQ(record_all(trace, {keys.begin() + 2, keys.end()}), keys.size() - 2);
}

TEST(AccessTrace, TellsForwardFromBackwardByWhatWasBefore) {
  AccessTrace trace;
  const std::vector<Key> keys = step(30);
  for (int i = 0; i < 3; ++i) {
    record_all(trace, keys);
  }
  // From the third step on, every single use is predicted although each tensor comes several times
  // a step.
  EXPECT_EQ(record_all(trace, keys), keys.size());
}

TEST(AccessTrace, FindsItsWayBackAfterAnotherPhase) {
  AccessTrace trace;
  const std::vector<Key> train = step(30);
  std::vector<Key> generate;
  for (Key key = 0; key <= 30; ++key) {
    generate.push_back(key);
  }
  for (int i = 0; i < 3; ++i) {
    record_all(trace, train);
    record_all(trace, generate);
  }
  EXPECT_EQ(record_all(trace, train), train.size());
  EXPECT_EQ(record_all(trace, generate), generate.size());
  // An evaluation that was never seen, then training again: lost for a few uses only.
  record_all(trace, {100, 101, 102});
  EXPECT_GE(record_all(trace, train) + 4, train.size());
}

TEST(AccessTrace, RepeatsThePeriodBeyondWhatIsKnown) {
  AccessTrace trace;
  record_all(trace, {1, 2, 3, 1});
  EXPECT_EQ(predicted(trace, 7), (std::vector<Key>{2, 3, 1, 2, 3, 1, 2}));
}

TEST(AccessTrace, ForgettingKeepsFollowing) {
  AccessTrace trace(256);
  const std::vector<Key> keys = step(20);
  std::size_t right = 0;
  for (int i = 0; i < 100; ++i) {
    right += record_all(trace, keys);
    ASSERT_LE(trace.size(), 256u);
  }
  EXPECT_GT(right, 90 * keys.size());
}

TEST(AccessTrace, RandomUsesNeverBreakIt) {
  std::mt19937 random(1);
  AccessTrace trace(64);
  for (int i = 0; i < 20000; ++i) {
    trace.record(random() % 5);
    if (trace.horizon() > 0) {
      ASSERT_TRUE(trace.upcoming(random() % 1000).has_value());
    }
  }
}

}  // namespace
}  // namespace penstock
