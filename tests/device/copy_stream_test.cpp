#include "swap/device/copy_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "swap/device/host_device.h"

namespace penstock {
namespace {

constexpr std::uint64_t kChunk = 4 * kKiB;

using Done = std::function<void(const std::optional<Error>&)>;

/// Calls `done` when it has ended, and is gone then.
class HeapCopy : public CopyOp {
 public:
  static CopyOp& then(Done done) {
    auto* const copy = new HeapCopy;
    copy->done_ = std::move(done);
    copy->on_complete = [](CopyOp& op) noexcept {
      const std::unique_ptr<HeapCopy> ended(static_cast<HeapCopy*>(&op));
      ended->done_(ended->error);
    };
    return *copy;
  }

 private:
  Done done_;
};

/// A simulated device with some pinned chunks and as much memory as `parts` of them.
class CopyStreamTest : public testing::Test {
 protected:
  static constexpr std::size_t kChunks = 3;
  static constexpr std::size_t kParts = 24;

  void open(std::uint64_t seed) {
    device_ = HostDevice::make({.seed = seed});
    memory_ = *PageSource::make()->allocate(kChunks * kChunk);
    ASSERT_TRUE(device_->pin(memory_.span()));
    target_ = *device_->allocate(kParts * kChunk);
    copies_ = *CopyStream::open(device_);
  }
  std::span<std::byte> chunk(std::size_t number) const {
    return memory_.span().subspan(number * kChunk, kChunk);
  }
  DeviceSpan part(std::size_t number) const { return target_.part(number * kChunk, kChunk); }
  const std::byte* device_bytes() const {
    return reinterpret_cast<const std::byte*>(target_.address);
  }

  void copy_in(DeviceSpan target, std::span<const std::byte> source, Done done) {
    copies_->copy_in(HeapCopy::then(std::move(done)), target, source);
  }
  void copy_out(std::span<std::byte> target, DeviceSpan source, Done done) {
    copies_->copy_out(HeapCopy::then(std::move(done)), target, source);
  }

  // Sends part after part through one chunk, each as soon as the copy before it was completed.
  void send(std::size_t number, std::size_t slot, std::latch& all) {
    std::memset(chunk(slot).data(), static_cast<int>(number + 1), kChunk);
    copy_in(part(number), chunk(slot),
            [this, number, slot, &all](const std::optional<Error>& error) {
              EXPECT_FALSE(error) << error->message;
              if (number + kChunks < kParts) {
                send(number + kChunks, slot, all);
              }
              all.count_down();
            });
  }

  std::shared_ptr<HostDevice> device_;
  Memory memory_;
  DeviceSpan target_;
  std::unique_ptr<CopyStream> copies_;
};

TEST_F(CopyStreamTest, AChunkIsUsedAgainWhenItsCopyCompletes) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    open(seed);
    std::latch all(kParts);
    for (std::size_t slot = 0; slot < kChunks; ++slot) {
      send(slot, slot, all);
    }
    all.wait();
    for (std::size_t number = 0; number < kParts; ++number) {
      const std::vector<std::byte> expected(kChunk, static_cast<std::byte>(number + 1));
      ASSERT_EQ(std::memcmp(device_bytes() + number * kChunk, expected.data(), kChunk), 0)
          << "seed " << seed << ", part " << number;
    }
    ASSERT_EQ(device_->unpinned_copies(), 0U);
    copies_.reset();
    device_->unpin(memory_.span());  // stops the program if a copy were under way
  }
}

TEST_F(CopyStreamTest, CallsBackInTheOrderOfRequests) {
  open(1);
  std::vector<int> completed;
  std::latch all(3);
  for (const int number : {1, 2, 3}) {
    copy_in(part(0), chunk(0), [&completed, &all, number](const std::optional<Error>&) {
      completed.push_back(number);
      all.count_down();
    });
  }
  all.wait();
  EXPECT_THAT(completed, testing::ElementsAre(1, 2, 3));
}

TEST_F(CopyStreamTest, ARefusalIsReportedInItsTurn) {
  open(1);
  std::vector<bool> failed;
  std::latch all(3);
  const auto completed = [&](const std::optional<Error>& error) {
    failed.push_back(error.has_value());
    all.count_down();
  };
  copy_in(part(0), chunk(0), completed);
  copy_in(part(0), chunk(0).first(10), completed);  // not of one size
  copy_out(chunk(0), part(0), completed);
  all.wait();
  EXPECT_THAT(failed, testing::ElementsAre(false, true, false));
}

TEST_F(CopyStreamTest, AStreamFindsTheCopiesThatPrecedeIt) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    open(seed);
    const StreamId consumer = *device_->make_stream();
    const EventId event = *device_->make_event();
    std::memset(chunk(0).data(), 7, kChunk);
    copy_in(part(0), chunk(0), [](const std::optional<Error>&) {});
    ASSERT_TRUE(copies_->precede(consumer));
    ASSERT_TRUE(device_->copy_out(chunk(1), part(0), consumer));
    ASSERT_TRUE(device_->record(event, consumer));
    ASSERT_TRUE(device_->wait(event));
    ASSERT_EQ(chunk(1)[kChunk - 1], std::byte{7}) << "seed " << seed;
    device_->destroy_event(event);
    device_->destroy_stream(consumer);
    copies_.reset();
  }
}

TEST_F(CopyStreamTest, CopiesFollowAStream) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    open(seed);
    const StreamId producer = *device_->make_stream();
    std::memset(chunk(0).data(), 9, kChunk);
    ASSERT_TRUE(device_->copy_in(part(0), chunk(0), producer));
    ASSERT_TRUE(copies_->follow(producer));
    std::promise<void> done;
    copy_out(chunk(1), part(0), [&done](const std::optional<Error>&) { done.set_value(); });
    done.get_future().wait();
    ASSERT_EQ(chunk(1)[kChunk - 1], std::byte{9}) << "seed " << seed;
    device_->destroy_stream(producer);
    copies_.reset();
  }
}

TEST_F(CopyStreamTest, EndsAfterTheLastCopyCompleted) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    open(seed);
    std::atomic<int> completed = 0;
    for (int copy = 0; copy < 10; ++copy) {
      copy_in(part(0), chunk(0), [&completed](const std::optional<Error>&) { ++completed; });
    }
    copies_.reset();
    ASSERT_EQ(completed, 10);
  }
}

TEST_F(CopyStreamTest, ManyThreadsAsk) {
  open(3);
  std::atomic<int> completed = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kChunks; ++thread) {
      threads.emplace_back([this, thread, &completed] {
        for (int copy = 0; copy < 100; ++copy) {
          copy_in(part(thread), chunk(thread), [&completed](const std::optional<Error>& error) {
            EXPECT_FALSE(error);
            ++completed;
          });
        }
      });
    }
  }
  copies_.reset();
  EXPECT_EQ(completed, 300);
}

/// An engine that is closed in the moment in which its last copy is completed, which another thread
/// asked for: that one must be done with the stream when the work is.
TEST_F(CopyStreamTest, MayEndWithItsLastWorkFromAnyThread) {
  device_ = HostDevice::make({});
  for (int round = 0; round < 200; ++round) {
    std::unique_ptr<CopyStream> copies = *CopyStream::open(device_);
    std::latch over(1);
    std::thread asking([&] {
      if (round % 2 == 0) {
        copies->run(HeapCopy::then([&](const auto&) { over.count_down(); }));
      } else {
        copies->mark(HeapCopy::then([&](const auto&) { over.count_down(); }));
      }
    });
    over.wait();
    copies.reset();
    asking.join();
  }
}

}  // namespace
}  // namespace penstock
