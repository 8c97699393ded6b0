#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

class SwapEngineThreadsTest : public EngineFixture {
 protected:
  /// Each thread has tensors of its own and does with them what a runtime does, in random order.
  void work(std::uint64_t max_pinned_bytes, std::uint64_t ram_bytes, int rounds) {
    open(max_pinned_bytes, ram_bytes);
    constexpr unsigned kThreads = 4;
    constexpr unsigned kTensors = 6;
    std::vector<std::vector<TensorId>> tensors(kThreads);
    for (unsigned t = 0; t < kThreads; ++t) {
      for (unsigned i = 0; i < kTensors; ++i) {
        tensors[t].push_back(declare(std::to_string(t) + "." + std::to_string(i),
                                     64 * kKiB * (1 + (i * 7) % 24) + i));
      }
    }
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { wrong += use(tensors[t], t, rounds); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(engine_->flush().has_value());
  }

  int use(const std::vector<TensorId>& tensors, unsigned seed, int rounds) {
    std::mt19937 random(seed);
    std::vector<unsigned> newest(tensors.size(), 0);
    std::vector<Lease> kept;
    int wrong = 0;
    for (int round = 0; round < rounds; ++round) {
      const std::size_t i = random() % tensors.size();
      const std::uint64_t bytes = engine_->state(tensors[i]).value().bytes;
      const unsigned action = newest[i] == 0 ? 0 : static_cast<unsigned>(random() % 6);
      if (action <= 1) {
        newest[i] = static_cast<unsigned>(random());
        const auto data = content(bytes, newest[i]);
        wrong += action == 0 ? !engine_->put(tensors[i], data).wait().has_value()
                             : (commit(tensors[i], data), 0);
      } else if (action == 2) {
        Lease lease = engine_->get(tensors[i], Access::kUpdate).lease().value();
        newest[i] = static_cast<unsigned>(random());
        const auto data = content(bytes, newest[i]);
        std::memcpy(lease.data(), data.data(), data.size());
        engine_->commit(lease);
      } else if (action == 3) {
        std::vector<std::byte> target(bytes + 1);
        wrong += !engine_->get_into(tensors[i], std::span(target).subspan(1)).wait().has_value();
        wrong += std::memcmp(target.data() + 1, content(bytes, newest[i]).data(), bytes) != 0;
      } else {
        const Lease lease = engine_->get(tensors[i]).lease().value();
        wrong += std::memcmp(lease.data(), content(bytes, newest[i]).data(), bytes) != 0;
        if (random() % 4 == 0) {
          kept.push_back(lease);
        }
      }
      if (kept.size() > 3) {
        kept.erase(kept.begin());
      }
      if (random() % 50 == 0) {
        engine_->prefetch(tensors);
      }
      if (random() % 100 == 0) {
        wrong += !engine_->plan().has_value();
      }
    }
    return wrong;
  }
};

TEST_F(SwapEngineThreadsTest, EverythingAtOnceWithAmplePinnedMemory) {
  work(64 * kMiB, 0, 300);
}
TEST_F(SwapEngineThreadsTest, EverythingAtOnceWithLittlePinnedMemory) {
  work(6 * kMiB, 0, 300);
}
TEST_F(SwapEngineThreadsTest, EverythingAtOnceWithHalfInRam) {
  work(8 * kMiB, 8 * kMiB, 300);
}

TEST_F(SwapEngineThreadsTest, NoReaderSeesHalfOfAPut) {
  constexpr std::uint64_t kBytes = 2 * kMiB;
  open(8 * kMiB, 16 * kMiB);
  const TensorId tensor = declare("resident", kBytes);
  put(tensor, std::vector<std::byte>(kBytes, std::byte{0}));
  ASSERT_TRUE(engine_->state(tensor).value().resident);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (unsigned char fill = 1; !stop; ++fill) {
      const std::vector<std::byte> data(kBytes, std::byte{fill});
      EXPECT_TRUE(engine_->put(tensor, data).wait().has_value());
    }
  });
  bool whole = true;
  for (int round = 0; round < 300 && whole; ++round) {
    const Lease lease = engine_->get(tensor).lease().value();
    whole = std::memcmp(lease.data(), lease.data() + 1, kBytes - 1) == 0;
  }
  EXPECT_TRUE(whole) << "two contents in one";
  stop = true;
  writer.join();
}

TEST_F(SwapEngineThreadsTest, EachFlushEndsBesideLaterPuts) {
  open(16 * kMiB, 0);
  const std::vector<std::byte> data = content(kMiB, 1);
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 4; ++i) {
    tensors.push_back(declare(numbered(i), kMiB));
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {  // one write of each is in flight at any time
      Ticket before = engine_->put(tensors[t], data);
      while (!stop) {
        Ticket next = engine_->put(tensors[t], data);
        EXPECT_TRUE(before.wait().has_value());
        before = std::move(next);
      }
      EXPECT_TRUE(before.wait().has_value());
    });
  }
  std::vector<std::thread> flushing;
  for (unsigned t = 2; t < 4; ++t) {
    flushing.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        const Ticket ticket = engine_->put(tensors[t], data);
        EXPECT_TRUE(engine_->flush().has_value());
        EXPECT_FALSE(engine_->state(tensors[t]).value().writing);
      }
    });
  }
  for (std::thread& thread : flushing) {
    thread.join();
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(SwapEngineThreadsTest, ClosingUnderLoadEndsEveryWait) {
  for (int round = 0; round < 5; ++round) {
    open(6 * kMiB, 0);
    std::vector<TensorId> tensors;
    for (unsigned i = 0; i < 8; ++i) {
      tensors.push_back(declare(numbered(10 * static_cast<unsigned>(round) + i), kMiB));
      put(tensors.back(), content(kMiB, i));
    }
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        while (!stop) {
          const Ticket ticket = engine_->get(tensors[random() % tensors.size()]);
          if (ticket.wait().has_error()) {
            EXPECT_EQ(ticket.wait().error().code, make_error_code(Fault::kClosed));
            return;
          }
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(engine_->close().has_value());
    stop = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
}

}  // namespace
}  // namespace penstock
