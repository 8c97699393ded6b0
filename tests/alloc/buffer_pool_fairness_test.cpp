#include <atomic>
#include <condition_variable>
#include <optional>
#include <utility>

#include "tests/alloc/pool_fixture.h"

namespace penstock {
namespace {

constexpr std::uint32_t kContenders = 16;

class BufferPoolFairness : public PoolFixture {};

// Where those who were served leave what they got, with their number.
class Desk {
 public:
  void leave(std::uint32_t number, Buffer buffer) {
    {
      const std::lock_guard lock(mutex_);
      left_.emplace(number, std::move(buffer));
    }
    changed_.notify_one();
  }
  std::pair<std::uint32_t, Buffer> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_.has_value(); });
    return *std::exchange(left_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::pair<std::uint32_t, Buffer>> left_;
};

// Sixteen threads want the same class again and again; one slot after the other comes back, each
// when all sixteen wait. The thread just served is last in the queue, so they must take turns.
TEST_F(BufferPoolFairness, SixteenThreadsTakeTurns) {
  constexpr std::uint32_t kRounds = 25;
  constexpr std::uint32_t kLeases = kContenders * kRounds;
  shape({{kMiB, 2}});
  Buffer next = *pool_->acquire(kMiB);
  Buffer after = *pool_->acquire(kMiB);  // promised as well, so that no waiter gives up
  next.expect_return();
  after.expect_return();
  Desk desk;
  std::vector<std::thread> threads;
  for (std::uint32_t number = 0; number < kContenders; ++number) {
    threads.emplace_back([&, number] {
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        Buffer mine = *pool_->acquire(kMiB);
        EXPECT_EQ(mine.kind(), BufferKind::kSlot);
        mine.expect_return();
        desk.leave(number, std::move(mine));
      }
    });
    until_waits(number + 1);
  }
  std::vector<std::uint32_t> order;
  for (std::uint32_t lease = 0; lease < kLeases; ++lease) {
    until_waits(std::min(kContenders + lease, kLeases));
    next = Buffer();
    auto [number, buffer] = desk.take();
    order.push_back(number);
    next = std::exchange(after, std::move(buffer));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::uint32_t lease = 0; lease < kLeases; ++lease) {
    ASSERT_EQ(order[lease], lease % kContenders) << "lease " << lease;
  }
  EXPECT_EQ(pool_->stats().waits, kLeases);
}

// A slot that comes back is the first waiter's at once, even if another thread asks meanwhile.
TEST_F(BufferPoolFairness, NoThreadOvertakesAWaiter) {
  constexpr std::uint64_t kRounds = 200;
  shape({{kMiB, 1}});
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    Buffer held = *pool_->acquire(kMiB);
    held.expect_return();
    std::atomic<bool> kept{true};
    std::thread waiting([&] {
      const Buffer mine = *pool_->acquire(kMiB);
      EXPECT_EQ(mine.kind(), BufferKind::kSlot);
      while (kept) {
        std::this_thread::yield();
      }
    });
    until_waits(round + 1);
    held = Buffer();
    EXPECT_FALSE(pool_->try_acquire_slot(kMiB)) << "round " << round;
    kept = false;
    waiting.join();
  }
}

// With four slots for sixteen threads no thread waits for ever and none is refused.
TEST_F(BufferPoolFairness, EveryThreadGetsAllItsLeases) {
  constexpr std::uint32_t kLeases = 300;
  shape({{kMiB, 4}});
  std::atomic<std::uint32_t> leases{0};
  std::vector<std::thread> threads;
  for (std::uint32_t number = 0; number < kContenders; ++number) {
    threads.emplace_back([&] {
      for (std::uint32_t count = 0; count < kLeases; ++count) {
        Result<Buffer> buffer = pool_->acquire(kMiB);
        if (buffer) {
          buffer->expect_return();
          ++leases;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(leases, kContenders * kLeases);
  EXPECT_EQ(pool_->stats().slot_bytes_live + pool_->stats().overflow_bytes, 0U);
  std::vector<Buffer> all;
  for (int slot = 0; slot < 4; ++slot) {
    all.push_back(*pool_->try_acquire_slot(kMiB));
  }
}

}  // namespace
}  // namespace penstock
