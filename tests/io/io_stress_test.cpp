#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "io/io_queue.h"
#include "tests/alloc/same_bytes.h"
#include "tests/alloc/sanitizers.h"
#include "tests/io/engine_kind_printing.h"
#include "tests/io/process_state.h"
#include "tests/io/queue_op.h"
#include "tests/io/temp_directory.h"

// Much at once on real files, on every engine: every byte is looked at, and nothing is left over.

namespace penstock {

namespace {

class IoStress : public testing::TestWithParam<EngineKind> {
 protected:
  static constexpr std::uint32_t kBlock = 16 * 1024;

  void SetUp() override { start(32); }
  void start(std::uint32_t depth) {
    Result<std::unique_ptr<IoQueue>> queue = IoQueue::start(GetParam(), {kBlock, depth});
    if (!queue) {
      GTEST_SKIP() << queue.error().message;
    }
    queue_ = std::move(*queue);
  }

  TempDirectory directory_;
  std::unique_ptr<IoQueue> queue_;
};

/// One thread's share: rounds in which it writes many pieces of its own part of two files, reads
/// them back, and looks at each.
class Writer {
 public:
  static constexpr std::uint64_t kOps = 50;  // at once
  static constexpr std::uint64_t kOpBytesMax = 40 * 1024;
  static constexpr std::uint64_t kPartBytes = kOps * kOpBytesMax;

  Writer(IoQueue& queue, const File& direct, const File& buffered, std::uint64_t number)
      : queue_(queue),
        direct_(direct),
        buffered_(buffered),
        begin_(number * kPartBytes),
        random_(number) {}

  /// How many bytes were not as written, and how many operations failed.
  std::uint64_t run(std::uint64_t ops) {
    std::uint64_t wrong = 0;
    for (std::uint64_t done = 0; done < ops; done += 2 * kOps) {
      wrong += round();
    }
    return wrong;
  }

 private:
  struct Share {
    const File* file;
    std::uint64_t offset;  // in the file, and from the same place in memory
    std::uint64_t bytes;
  };

  std::uint64_t round() {
    std::array<Share, kOps> shares{};
    for (std::uint64_t index = 0; index < kOps; ++index) {
      const std::uint64_t word = random_();
      const bool is_direct = word % 2 == 0;
      Share& share = shares[index];
      share.file = is_direct ? &direct_ : &buffered_;
      share.offset = index * kOpBytesMax + (is_direct ? 0 : word / 2 % 4096);
      share.bytes = is_direct ? (1 + word / 2 % 10) * 4096 : 1 + word / 2 % (kOpBytesMax - 4096);
    }
    fill_random(source_.span(), random_());
    std::memset(target_.data(), 0, target_.bytes());
    std::uint64_t wrong = run_all(IoKind::kWrite, source_, shares);
    wrong += run_all(IoKind::kRead, target_, shares);
    for (const Share& share : shares) {
      wrong += same_bytes(source_.span().subspan(share.offset, share.bytes),
                          target_.span().subspan(share.offset, share.bytes))
                   ? 0
                   : share.bytes;
    }
    return wrong;
  }

  std::uint64_t run_all(IoKind kind, const Memory& memory, const std::array<Share, kOps>& shares) {
    std::latch done(kOps);
    std::array<QueueOp, kOps> ops;
    for (std::uint64_t index = 0; index < kOps; ++index) {
      QueueOp& op = ops[index];
      const Share& share = shares[index];
      op.set(kind, *share.file, memory.span().subspan(share.offset, share.bytes),
             begin_ + share.offset);
      op.done = &done;
      op.priority = static_cast<IoPriority>(index % kIoPriorities);
      queue_.submit(op);
    }
    done.wait();
    std::uint64_t failed = 0;
    for (const QueueOp& op : ops) {
      failed += op.error == 0 && op.calls == 1 ? 0 : 1;
    }
    return failed;
  }

  IoQueue& queue_;
  const File& direct_;
  const File& buffered_;
  std::uint64_t begin_;
  std::mt19937_64 random_;
  Memory source_ = pages(kPartBytes);
  Memory target_ = pages(kPartBytes);
};

std::uint64_t blocks_of(const File& file) {
  struct ::stat info{};
  EXPECT_EQ(::fstat(file.fd(), &info), 0);
  return static_cast<std::uint64_t>(info.st_blocks);
}

TEST_P(IoStress, ManyOperationsOfManyThreadsLeaveNothingBehind) {
  constexpr std::uint64_t kThreads = 8;
  const std::uint64_t ops = work(100'000);
  const File direct = std::move(File::create_scratch(directory_.path())).value();
  const File buffered =
      std::move(File::create_scratch(directory_.path(), DirectMode::kBuffered)).value();
  std::deque<Writer> writers;
  for (std::uint64_t number = 0; number < kThreads; ++number) {
    writers.emplace_back(*queue_, direct, buffered, number);
  }
  std::atomic<std::uint64_t> wrong = 0;
  const auto run = [&](std::uint64_t ops_of_all) {
    std::vector<std::thread> threads;
    for (Writer& writer : writers) {
      threads.emplace_back([&] { wrong += writer.run(ops_of_all / kThreads); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  };
  run(ops / 10);  // what is made once is there now
  const std::size_t descriptors = open_descriptors();
  const std::uint64_t memory = resident_bytes();
  run(ops - ops / 10);
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(open_descriptors(), descriptors);
  if (!kSanitized) {
    EXPECT_LT(resident_bytes(), memory + 16 * kMiB);
  }
  const std::uint64_t sectors = 2 * kThreads * Writer::kPartBytes / 512;
  EXPECT_LE(blocks_of(direct) + blocks_of(buffered), sectors + 1024) << "of each place one copy";
  const IoStats stats = queue_->stats();
  EXPECT_GE(stats.read_ops + stats.write_ops, ops);
  EXPECT_EQ(stats.read_ops, stats.write_ops);
  EXPECT_EQ(stats.errors, 0U);
}

TEST_P(IoStress, FourThousandRequestsOnAQueueOfEight) {
  start(8);
  constexpr std::uint64_t kOps = 4000;
  constexpr std::uint64_t kOpBytes = 8 * kKiB;
  const File file = std::move(File::create_scratch(directory_.path())).value();
  ASSERT_TRUE(file.reserve(0, kOps * kOpBytes).has_value());
  const Memory source = pages(kOps * kOpBytes);
  const Memory target = pages(kOps * kOpBytes);
  fill_random(source.span(), 4);
  for (const IoKind kind : {IoKind::kWrite, IoKind::kRead}) {
    const Memory& memory = kind == IoKind::kWrite ? source : target;
    std::latch done(kOps);
    std::deque<QueueOp> ops(kOps);
    std::vector<IoOp*> batch;
    for (std::uint64_t index = 0; index < kOps; ++index) {
      QueueOp& op = ops[index];
      op.set(kind, file, memory.span().subspan(index * kOpBytes, kOpBytes), index * kOpBytes);
      op.done = &done;
      batch.push_back(&op);
    }
    queue_->submit(batch);
    done.wait();
    for (const QueueOp& op : ops) {
      ASSERT_EQ(op.error, 0);
      ASSERT_EQ(op.calls, 1);
    }
  }
  EXPECT_TRUE(same_bytes(source.span(), target.span()));
}

TEST_P(IoStress, StoppingWaitsForThousandsInFlight) {
  start(8);
  constexpr std::uint64_t kOps = 4000;
  const File file = std::move(File::create_scratch(directory_.path())).value();
  ASSERT_TRUE(file.reserve(0, kOps * 4 * kKiB).has_value());
  const Memory memory = pages(kOps * 4 * kKiB);
  std::latch done(kOps);
  std::deque<QueueOp> ops(kOps);
  for (std::uint64_t index = 0; index < kOps; ++index) {
    QueueOp& op = ops[index];
    op.set(IoKind::kWrite, file, memory.span().subspan(index * 4 * kKiB, 4 * kKiB),
           index * 4 * kKiB);
    op.done = &done;
    queue_->submit(op);
  }
  queue_.reset();
  EXPECT_TRUE(done.try_wait());
  for (const QueueOp& op : ops) {
    ASSERT_EQ(op.error, 0);
    ASSERT_EQ(op.calls, 1);
  }
}

TEST_P(IoStress, QueuesComeAndGoWithoutATrace) {
  const File file = std::move(File::create_scratch(directory_.path())).value();
  const Memory memory = pages(kMiB);
  const auto come_and_go = [&](std::uint64_t times) {
    for (std::uint64_t round = 0; round < times; ++round) {
      start(4);
      std::latch done(1);
      QueueOp op;
      op.set(IoKind::kWrite, file, memory.span(), 0);
      op.done = &done;
      queue_->submit(op);
      queue_->stop();
      ASSERT_EQ(op.error, 0);
    }
    queue_.reset();
  };
  come_and_go(5);
  const std::size_t descriptors = open_descriptors();
  const std::uint64_t resident = resident_bytes();
  come_and_go(50);
  EXPECT_EQ(open_descriptors(), descriptors);
  if (!kSanitized) {
    EXPECT_LT(resident_bytes(), resident + 8 * kMiB);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, IoStress,
                         testing::Values(EngineKind::kUring, EngineKind::kAio,
                                         EngineKind::kThreads),
                         [](const testing::TestParamInfo<EngineKind>& kind) {
                           return std::string(engine_kind_name(kind.param));
                         });

}  // namespace
}  // namespace penstock
