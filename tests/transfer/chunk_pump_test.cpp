#include "swap/transfer/chunk_pump.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "alloc/bytes.h"

namespace penstock {
namespace {

/// What is under way in a test, to be ended in any order.
class Pending {
 public:
  explicit Pending(std::uint64_t seed) : random_(seed) {}

  void add(std::function<void()> end) {
    const std::lock_guard lock(mutex_);
    ends_.push_back(std::move(end));
  }
  /// Ends one, chosen by the seed. False: nothing is under way.
  bool end_one() {
    std::function<void()> end;
    {
      const std::lock_guard lock(mutex_);
      if (ends_.empty()) {
        return false;
      }
      std::swap(ends_[random_() % ends_.size()], ends_.back());
      end = std::move(ends_.back());
      ends_.pop_back();
    }
    end();
    return true;
  }
  std::uint64_t number() {
    const std::lock_guard lock(mutex_);
    return random_();
  }

 private:
  std::mutex mutex_;
  std::mt19937_64 random_;
  std::vector<std::function<void()>> ends_;
};

/// Bytes from nowhere to nowhere, which notes what the pump does with it.
class NotedTransfer final : public Transfer {
 public:
  NotedTransfer(Pending& pending, std::uint64_t bytes) : Transfer(bytes), pending_(pending) {}

  // Where it fails, if it does.
  std::uint64_t fails_to_arrive_at = kNowhere;
  std::uint64_t fails_to_pass_at = kNowhere;
  std::uint64_t fails_to_leave_at = kNowhere;
  bool ends_at_once = false;

  // Read when nothing is under way.
  std::uint64_t passed = 0;
  std::uint64_t delivered = 0;
  std::atomic<std::uint64_t> fetched = 0;
  std::atomic<int> overs = 0;
  std::string first_error;

  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

 private:
  std::uint64_t part_bytes(std::uint64_t chunk_bytes, std::uint64_t left) noexcept override {
    return std::min(chunk_bytes, left);
  }
  void fetch(Chunk& chunk) noexcept override {
    EXPECT_FALSE(failed_) << "a part begins after an error";
    fetched += chunk.bytes;
    const bool fails = chunk.offset == fails_to_arrive_at;
    end([this, &chunk, fails] {
      if (fails) {
        failed_ = true;
        chunk.pump->left(chunk, fault(Fault::kCorrupt, "arrives not"));
      } else {
        chunk.pump->arrived(chunk);
      }
    });
  }
  std::optional<Error> pass(Chunk& chunk) noexcept override {
    EXPECT_EQ(chunk.offset, passed) << "out of order";
    passed += chunk.bytes;
    if (chunk.offset != fails_to_pass_at) {
      return std::nullopt;
    }
    failed_ = true;
    return fault(Fault::kCorrupt, "passes not");
  }
  void deliver(Chunk& chunk) noexcept override {
    const bool fails = chunk.offset == fails_to_leave_at;
    delivered += fails ? 0 : chunk.bytes;
    end([this, &chunk, fails] {
      if (fails) {
        failed_ = true;
      }
      chunk.pump->left(chunk,
                       fails ? std::optional(fault(Fault::kCorrupt, "leaves not")) : std::nullopt);
    });
  }
  void over() noexcept override {
    ++overs;
    first_error = error() ? error()->message : "";
  }
  void end(std::function<void()> ended) { ends_at_once ? ended() : pending_.add(std::move(ended)); }

  Pending& pending_;
  bool failed_ = false;  // of one thread: where many end parts, none fails
};

/// A pump of a few chunks of 4 KiB.
struct Pumping {
  explicit Pumping(std::size_t count) : memory(count * kBlockBytes), chunks(count) {
    for (std::size_t i = 0; i < count; ++i) {
      chunks[i].memory = std::span(memory).subspan(i * kBlockBytes, kBlockBytes);
    }
    pump.emplace(chunks);
  }
  std::vector<std::byte> memory;
  std::vector<Chunk> chunks;
  std::optional<ChunkPump> pump;
};

TEST(ChunkPumpTest, PartsPassInOrderInWhateverOrderTheyArrive) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Pending pending(seed);
    Pumping pumping(1 + seed % 4);
    std::vector<std::shared_ptr<NotedTransfer>> transfers;
    for (std::uint64_t bytes : {std::uint64_t{1}, 5 * kBlockBytes, 3 * kBlockBytes + seed}) {
      transfers.push_back(std::make_shared<NotedTransfer>(pending, bytes));
      pumping.pump->move(transfers.back());
    }
    while (pending.end_one()) {
    }
    for (const auto& transfer : transfers) {
      EXPECT_EQ(transfer->overs, 1) << "seed " << seed;
      EXPECT_EQ(transfer->first_error, "");
      EXPECT_EQ(transfer->passed, transfer->delivered);
      EXPECT_EQ(transfer->fetched, transfer->passed);
    }
    EXPECT_EQ(transfers[0]->passed, 1U);
    EXPECT_EQ(transfers[1]->passed, 5 * kBlockBytes);
    EXPECT_EQ(transfers[2]->passed, 3 * kBlockBytes + seed);
  }
}

TEST(ChunkPumpTest, AFailureEndsOneTransferAndNoOther) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Pending pending(seed);
    Pumping pumping(1 + seed % 4);
    const auto good = std::make_shared<NotedTransfer>(pending, 6 * kBlockBytes);
    const auto bad = std::make_shared<NotedTransfer>(pending, 6 * kBlockBytes);
    const std::uint64_t at = pending.number() % 6 * kBlockBytes;
    constexpr const char* kErrors[] = {"arrives not", "passes not", "leaves not"};
    (seed % 3 == 0   ? bad->fails_to_arrive_at
     : seed % 3 == 1 ? bad->fails_to_pass_at
                     : bad->fails_to_leave_at) = at;
    pumping.pump->move(bad);
    pumping.pump->move(good);
    while (pending.end_one()) {
    }
    EXPECT_EQ(bad->overs, 1) << "seed " << seed;
    EXPECT_EQ(bad->first_error, kErrors[seed % 3]);
    EXPECT_EQ(good->overs, 1);
    EXPECT_EQ(good->delivered, 6 * kBlockBytes);
  }
}

TEST(ChunkPumpTest, WhatEndsAtOnceDoesNotNest) {
  Pending pending(1);
  Pumping pumping(2);
  const auto transfer = std::make_shared<NotedTransfer>(pending, 100'000 * kBlockBytes);
  transfer->ends_at_once = true;  // a call within the last one's would overflow the stack
  pumping.pump->move(transfer);
  EXPECT_EQ(transfer->overs, 1);
  EXPECT_EQ(transfer->delivered, 100'000 * kBlockBytes);
}

/// Its one part has ended on another thread before fetch() returns, as on a fast drive.
class FastTransfer final : public Transfer {
 public:
  FastTransfer() : Transfer(kBlockBytes) {}
  std::thread::id over_on;

 private:
  std::uint64_t part_bytes(std::uint64_t, std::uint64_t left) noexcept override { return left; }
  void fetch(Chunk& chunk) noexcept override {
    std::thread([&chunk] { chunk.pump->arrived(chunk); }).join();
  }
  std::optional<Error> pass(Chunk&) noexcept override { return std::nullopt; }
  void deliver(Chunk& chunk) noexcept override { chunk.pump->left(chunk); }
  void over() noexcept override { over_on = std::this_thread::get_id(); }
};

TEST(ChunkPumpTest, ATransferIsOverWhereItsLastPartEnds) {
  Pumping pumping(1);
  const auto transfer = std::make_shared<FastTransfer>();
  pumping.pump->move(transfer);  // with locks, maybe, that over() takes
  EXPECT_NE(transfer->over_on, std::thread::id());
  EXPECT_NE(transfer->over_on, std::this_thread::get_id());
}

TEST(ChunkPumpTest, AChunkThatIsAnEndCarriesItsOwnPartOnly) {
  Pending pending(1);
  Pumping pumping(2);
  pumping.chunks[0].lies_at = 0;
  pumping.chunks[1].lies_at = kBlockBytes;
  const auto transfer = std::make_shared<NotedTransfer>(pending, 2 * kBlockBytes);
  transfer->ends_at_once = true;  // so that the first chunk is free when the second part begins
  std::array<std::uint64_t, 2> offsets{};
  pumping.pump->move(transfer);
  for (std::size_t i = 0; i < 2; ++i) {
    offsets[i] = pumping.chunks[i].offset;
  }
  EXPECT_EQ(offsets, (std::array<std::uint64_t, 2>{0, kBlockBytes}));
  EXPECT_EQ(transfer->overs, 1);
}

TEST(ChunkPumpTest, WhatGoesAnotherWayIsWaitedFor) {
  Pending pending(1);
  Pumping pumping(2);
  const auto transfer = std::make_shared<NotedTransfer>(pending, 4 * kBlockBytes);
  transfer->passed = 3 * kBlockBytes;
  pumping.pump->move(transfer, 3 * kBlockBytes, 1);
  while (pending.end_one()) {
  }
  EXPECT_EQ(transfer->fetched, kBlockBytes);
  EXPECT_EQ(transfer->overs, 0);
  pumping.pump->let_go(transfer, fault(Fault::kCorrupt, "the other way"));
  EXPECT_EQ(transfer->overs, 1);
  EXPECT_EQ(transfer->first_error, "the other way");
}

TEST(ChunkPumpTest, ManyThreadsEndWhatIsUnderWay) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Pending pending(seed);
    Pumping pumping(3);
    std::vector<std::shared_ptr<NotedTransfer>> transfers;
    for (int i = 0; i < 4; ++i) {
      transfers.push_back(std::make_shared<NotedTransfer>(pending, 50 * kBlockBytes));
    }
    std::atomic<bool> all_over = false;
    {
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < 3; ++thread) {
        threads.emplace_back([&] {
          while (!all_over) {
            if (!pending.end_one()) {
              std::this_thread::yield();
            }
          }
        });
      }
      for (const auto& transfer : transfers) {
        pumping.pump->move(transfer);
      }
      pumping.pump.reset();  // waits for all of them
      all_over = true;
    }
    for (const auto& transfer : transfers) {
      EXPECT_EQ(transfer->overs, 1);
      EXPECT_EQ(transfer->delivered, 50 * kBlockBytes);
    }
  }
}

}  // namespace
}  // namespace penstock
