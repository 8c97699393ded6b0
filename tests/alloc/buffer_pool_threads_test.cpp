#include <array>
#include <atomic>
#include <cstring>
#include <random>

#include "tests/alloc/pool_fixture.h"

namespace penstock {
namespace {

class BufferPoolThreads : public PoolFixture {};

// Every thread writes its mark over what it leases and finds it there when it gives back, while the
// pool is reshaped underneath and promises come and go.
TEST_F(BufferPoolThreads, NoOtherThreadTouchesALease) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 400;
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(static_cast<unsigned>(number));
      constexpr std::array<std::uint64_t, 5> kSizes = {100, 4096, 60 * kKiB, 64 * kKiB, 700 * kKiB};
      std::vector<Buffer> held;
      for (int round = 0; round < kRounds; ++round) {
        Result<Buffer> buffer = pool_->acquire(kSizes[random() % kSizes.size()]);
        if (!buffer) {
          ++failures;
          continue;
        }
        std::memset(buffer->data(), number + 1, 100);
        held.push_back(std::move(*buffer));
        if (held.size() > 6) {
          // Those that stay must not be counted on by others, or all might wait for one another.
          Buffer& back = held.front();
          back.expect_return();
          std::this_thread::yield();
          for (const std::byte byte : back.span().first(100)) {
            failures += byte == static_cast<std::byte>(number + 1) ? 0 : 1;
          }
          held.erase(held.begin());
        }
      }
    });
  }
  std::thread shaper([&] {
    const std::vector<std::vector<ClassPlan>> plans = {
        {{64 * kKiB, 8}, {4096, 8}}, {{700 * kKiB, 6}, {64 * kKiB, 8}}, {}, {{4096, 4}}};
    for (std::size_t round = 0; !done; ++round) {
      (void)pool_->shape(plans[round % plans.size()]);
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) {
    thread.join();
  }
  done = true;
  shaper.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(pool_->stats().slot_bytes_live, 0U);
  EXPECT_EQ(pool_->stats().overflow_bytes, 0U);
  EXPECT_EQ(pageable_->held_bytes(), 0U);
  shape({});
  EXPECT_EQ(pinned_->held_bytes(), 0U);
  EXPECT_EQ(arenas_out(), 0U);
}

TEST_F(BufferPoolThreads, AsManyPromisesAsWaitersServeThemAll) {
  constexpr std::uint32_t kThreads = 6;
  shape({{kMiB, kThreads}});
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t waits = pool_->stats().waits;
    std::vector<Buffer> promised;
    for (std::uint32_t index = 0; index < kThreads; ++index) {
      promised.push_back(*pool_->acquire(kMiB));
      promised.back().expect_return();
    }
    std::atomic<std::uint32_t> slots{0};
    std::vector<Buffer> served(kThreads);
    std::vector<std::thread> threads;
    for (Buffer& mine : served) {
      threads.emplace_back([&] {
        mine = *pool_->acquire(kMiB);
        slots += mine.kind() == BufferKind::kSlot ? 1 : 0;
      });
    }
    until_waits(waits + kThreads);
    for (Buffer& buffer : promised) {
      threads.emplace_back([back = std::move(buffer)]() mutable { back = Buffer(); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(slots, kThreads);
  }
  EXPECT_EQ(pool_->stats().slot_bytes_live, 0U);
}

TEST_F(BufferPoolThreads, BuffersComeBackWhileThePoolEnds) {
  for (int round = 0; round < 50; ++round) {
    std::vector<std::thread> threads;
    {
      BufferPoolOptions options;
      options.pinned = arenas_;
      {
        BufferPool pool(std::move(options));
        ASSERT_TRUE(pool.shape(std::vector<ClassPlan>{{64 * kKiB, 3}}));
        for (const std::uint64_t bytes : {64 * kKiB, 64 * kKiB, 64 * kKiB, 2 * kMiB}) {
          threads.emplace_back([buffer = *pool.acquire(bytes)]() mutable {
            buffer.expect_return();
            buffer = Buffer();
          });
        }
      }
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  EXPECT_EQ(arenas_out(), 0U) << "each arena went back once";
  EXPECT_EQ(pinned_->held_bytes(), 0U);
}

}  // namespace
}  // namespace penstock
