// What an engine says of max_pinned_bytes that were too few.

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

class SwapEngineAdviceTest : public EngineFixture {
 protected:
  /// A namespace of its own with tensors of three sizes, each used `rounds` times.
  void run(unsigned rounds) {
    std::vector<TensorId> tensors;
    for (unsigned i = 0; i < 30; ++i) {
      const std::uint64_t bytes = i % 6 == 0 ? 3 * kMiB + 100 : i % 6 == 1 ? 300 * kKiB : kMiB;
      tensors.push_back(declare(numbered(i), bytes));
      put(tensors.back(), content(bytes, i));
    }
    for (unsigned round = 0; round < rounds; ++round) {
      std::vector<Lease> window;  // held at once: as a runtime that gathers ahead
      for (unsigned i = 0; i < 30; ++i) {
        window.push_back(engine_->get(tensors[i]).lease().value());
        if (window.size() > 14) {
          window.erase(window.begin());
        }
      }
    }
  }
};

TEST_F(SwapEngineAdviceTest, TheValueThatItNamesEndsTheOverflow) {
  open(8 * kMiB, 0);
  run(3);
  ASSERT_TRUE(engine_->overflow_advice());
  const SwapStats stats = engine_->stats();
  EXPECT_GT(stats.overflow_buffers, 0U);
  EXPECT_GT(stats.held_overflow_bytes_max, 4 * kMiB);
  EXPECT_GT(stats.held_bytes_max, stats.held_overflow_bytes_max);
  EXPECT_GT(stats.overflow_ns, 0U);
  ASSERT_GT(stats.pinned_bytes_needed, 8 * kMiB);
  EXPECT_LE(stats.pinned_bytes_needed, 2 * stats.held_bytes_max + 8 * kMiB);

  open(stats.pinned_bytes_needed, 0);
  run(3);
  EXPECT_EQ(engine_->stats().overflow_buffers, 0U);
  EXPECT_EQ(engine_->overflow_advice(), std::nullopt);
  EXPECT_EQ(engine_->stats().pinned_bytes_needed, 0U);
  ASSERT_TRUE(engine_->close().has_value());
}

TEST_F(SwapEngineAdviceTest, IsSaidOnceWhenTheEngineIsClosed) {
  open(8 * kMiB, 0);
  run(1);
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
  ASSERT_TRUE(engine_->close().has_value());
  const std::uint64_t needed = engine_->stats().pinned_bytes_needed;  // closed, and still said
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr(fmt::format("\"{}MiB\"", needed / kMiB)));
  ASSERT_TRUE(engine_->close().has_value());
  EXPECT_EQ(warnings_.size(), 1U);
}

// Where the second ended at once, its caller could end the process before contents are safe.
TEST_F(SwapEngineAdviceTest, ACloseBesideAnotherWaitsForIt) {
  open(8 * kMiB, 0);
  run(1);
  std::atomic<bool> is_closed = false;
  std::thread other;
  on_warning_ = [&] {  // in the middle of the first close()
    other = std::thread([&] {
      EXPECT_TRUE(engine_->close().has_value());
      is_closed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(is_closed);
  };
  ASSERT_TRUE(engine_->close().has_value());
  ASSERT_TRUE(other.joinable()) << "the advice was given";
  other.join();
  EXPECT_TRUE(is_closed);
}

TEST_F(SwapEngineAdviceTest, ClosedNamespacesCountToo) {
  open(8 * kMiB, 0);
  run(1);
  ASSERT_TRUE(engine_->close_namespace(space_).has_value());
  ASSERT_TRUE(engine_->close().has_value());
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(SwapEngineAdviceTest, WhoAsksForItIsWhoSaysIt) {
  open(8 * kMiB, 0);
  EXPECT_EQ(engine_->overflow_advice(), std::nullopt);
  run(1);
  const std::optional<std::string> advice = engine_->overflow_advice();
  ASSERT_TRUE(advice);
  EXPECT_EQ(engine_->overflow_advice(), advice);
  ASSERT_TRUE(engine_->close().has_value());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(SwapEngineAdviceTest, WhatIsMeantToBePageableIsNoReason) {
  EngineConfig config;
  config.tensors = {{"t*", {}, {}, Place::kStream, {}}};
  open(8 * kMiB, 0, config);
  run(1);
  EXPECT_EQ(engine_->stats().overflow_buffers, 0U);
  ASSERT_TRUE(engine_->close().has_value());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(SwapEngineAdviceTest, CountsWhatCallersFillThemselves) {
  open(8 * kMiB, 0);
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 10; ++i) {
    tensors.push_back(declare(numbered(i), kMiB));
  }
  ASSERT_TRUE(engine_->plan().has_value());
  {
    std::vector<Lease> held;
    for (const TensorId tensor : tensors) {
      held.push_back(engine_->allocate(tensor).value());
    }
  }
  EXPECT_EQ(engine_->stats().held_bytes_max, 10 * kMiB);
  EXPECT_TRUE(engine_->overflow_advice());
  EXPECT_EQ(engine_->stats().pinned_bytes_needed, 14 * kMiB) << "and the chunks";
}

}  // namespace
}  // namespace penstock
