#include "alloc/limiting_source.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "alloc/recycling_source.h"

namespace penstock {
namespace {

TEST(LimitingSource, CountsWholeBlocksWhileTheyAreHeld) {
  const auto source = LimitingSource::make(PageSource::make(), kMiB, "max_pinned_bytes");
  {
    const Result<Memory> first = source->allocate(5000);
    EXPECT_EQ(source->held_bytes(), 8192U);
    const Result<Memory> rest = source->allocate(kMiB - 8192);
    ASSERT_TRUE(rest) << "the limit itself may be reached";
    EXPECT_EQ(source->held_bytes(), kMiB);
  }
  EXPECT_EQ(source->held_bytes(), 0U);
}

TEST(LimitingSource, ErrorNamesTheNumberToRaise) {
  const auto source = LimitingSource::make(PageSource::make(), 8 * kMiB, "max_pinned_bytes");
  const Result<Memory> held = source->allocate(6 * kMiB);
  const Result<Memory> refused = source->allocate(3 * kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Fault::kExhausted);
  const std::string& message = refused.error().message;
  for (const char* part : {"max_pinned_bytes", "8.0 MiB", "6.0 MiB", "3.0 MiB", "9437184"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
  source->set_limit_bytes(9437184);
  EXPECT_TRUE(source->allocate(3 * kMiB)) << "what the message says must do";
}

TEST(LimitingSource, LoweringTheLimitTakesNothingAway) {
  const auto source = LimitingSource::make(PageSource::make(), 8 * kMiB, "b");
  {
    const Result<Memory> held = source->allocate(6 * kMiB);
    source->set_limit_bytes(kMiB);
    EXPECT_EQ(source->limit_bytes(), kMiB);
    EXPECT_EQ(source->held_bytes(), 6 * kMiB);
    EXPECT_FALSE(source->allocate(1));
  }
  EXPECT_TRUE(source->allocate(kMiB));
}

TEST(LimitingSource, WhatTheUpstreamAddsCountsToo) {
  const auto recycling = RecyclingSource::make(PageSource::make());
  recycling->set_limits({.retained_bytes = 64 * kMiB});
  const auto source = LimitingSource::make(recycling, 8 * kMiB, "b");
  {
    const Result<Memory> large = source->allocate(8 * kMiB);
  }
  const Result<Memory> recycled = source->allocate(7 * kMiB + 512 * kKiB);
  ASSERT_TRUE(recycled);
  EXPECT_EQ(recycled->bytes(), 8 * kMiB);
  EXPECT_EQ(source->held_bytes(), 8 * kMiB);
}

TEST(LimitingSource, NeverExceedsTheLimitUnderContention) {
  constexpr std::uint64_t kLimit = 64 * kBlockBytes;
  const auto source = LimitingSource::make(PageSource::make(), kLimit, "b");
  std::atomic<std::uint64_t> mine{0};
  std::atomic<int> excesses{0};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t step = 0; step < 500; ++step) {
        const std::uint64_t bytes = ((step + thread) % 40 + 1) * kBlockBytes;
        Result<Memory> memory = source->allocate(bytes);
        if (memory) {
          excesses += mine.fetch_add(bytes) + bytes > kLimit ? 1 : 0;
          mine -= bytes;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(excesses, 0);
  EXPECT_EQ(source->held_bytes(), 0U);
}

}  // namespace
}  // namespace penstock
