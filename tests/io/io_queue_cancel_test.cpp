#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

#include "io/io_queue.h"
#include "tests/alloc/same_bytes.h"
#include "tests/io/engine_kind_printing.h"
#include "tests/io/queue_op.h"
#include "tests/io/temp_directory.h"

// Operations that end early: cancelled from any thread, or by their deadline.

namespace penstock {

namespace {

using std::chrono::steady_clock;

class IoQueueCancel : public testing::TestWithParam<EngineKind> {
 protected:
  static constexpr std::uint32_t kBlock = 64 * 1024;

  void SetUp() override { start(1); }
  void start(std::uint32_t depth) {
    Result<std::unique_ptr<IoQueue>> queue = IoQueue::start(GetParam(), {kBlock, depth});
    if (!queue) {
      GTEST_SKIP() << queue.error().message;
    }
    queue_ = std::move(*queue);
  }
  QueueOp& prepare(QueueOp& op, std::latch& done, std::uint64_t index,
                   std::uint64_t bytes = kBlock) {
    op.set(IoKind::kWrite, file_, memory_.span().subspan(index * kBlock, bytes), index * kBlock);
    op.done = &done;
    return op;
  }
  // Holds the loop in a callback until `open` is counted down.
  void hold_loop(QueueOp& gate, std::latch& done, std::latch& open) {
    std::latch reached(1);
    gate.before_done = [&reached, &open] {
      reached.count_down();
      open.wait();
    };
    queue_->submit(prepare(gate, done, 0));
    reached.wait();
  }

  TempDirectory directory_;
  File file_ = std::move(File::create_scratch(directory_.path())).value();
  Memory memory_ = pages(8 * kMiB);
  std::unique_ptr<IoQueue> queue_;
};

TEST_P(IoQueueCancel, EndsWhatHasNotBegunAndNothingElse) {
  std::latch done(5);
  std::latch open(1);
  QueueOp gate;
  hold_loop(gate, done, open);
  std::array<QueueOp, 4> ops;
  for (std::size_t index = 0; index < ops.size(); ++index) {
    queue_->submit(prepare(ops[index], done, index + 1, 4 * kBlock));
  }
  queue_->cancel(ops[1]);
  queue_->cancel(ops[3]);
  queue_->cancel(ops[3]);
  open.count_down();
  done.wait();
  EXPECT_EQ(ops[0].error, 0);
  EXPECT_EQ(ops[1].error, ECANCELED);
  EXPECT_EQ(ops[2].error, 0);
  EXPECT_EQ(ops[3].error, ECANCELED);
  for (const QueueOp& op : ops) {
    EXPECT_EQ(op.calls, 1);
  }
  EXPECT_EQ(queue_->stats().errors, 2U);
  EXPECT_EQ(queue_->stats().requests, 9U) << "nothing of them was issued";
}

TEST_P(IoQueueCancel, AnOperationThatIsOverStaysAsItIsAndMayBeUsedAgain) {
  for (int round = 0; round < 3; ++round) {
    std::latch done(1);
    QueueOp op;
    queue_->submit(prepare(op, done, 0));
    done.wait();
    EXPECT_EQ(op.error, 0);
    queue_->cancel(op);  // too late, and no matter for the next time
    std::latch again(1);
    queue_->submit(prepare(op, again, 0));
    again.wait();
    EXPECT_EQ(op.error, 0);
    EXPECT_EQ(op.calls, 2);
  }
}

TEST_P(IoQueueCancel, RacesWithTheEndOfOperations) {
  start(4);
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kOps = 250;
  std::latch done(kThreads * kOps);
  std::deque<QueueOp> ops(kThreads * kOps);
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      for (std::uint64_t index = 0; index < kOps; ++index) {
        QueueOp& op = ops[number * kOps + index];
        queue_->submit(prepare(op, done, (number * kOps + index) % 100, 2 * kBlock));
        if (index % 3 != 0) {
          queue_->cancel(ops[number * kOps + index / 2]);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  done.wait();
  for (const QueueOp& op : ops) {
    ASSERT_EQ(op.calls, 1);
    ASSERT_TRUE(op.error == 0 || op.error == ECANCELED) << op.error;
  }
}

TEST_P(IoQueueCancel, WorksWhileTheQueueStopsAndAfterwards) {
  constexpr std::uint64_t kOps = 4000;
  std::latch done(kOps + 1);
  std::latch open(1);
  QueueOp gate;
  hold_loop(gate, done, open);
  std::deque<QueueOp> ops(kOps);
  for (std::uint64_t index = 0; index < kOps; ++index) {
    queue_->submit(prepare(ops[index], done, index % 100));
  }
  std::thread stopping([this] { queue_->stop(); });
  open.count_down();
  for (QueueOp& op : ops) {
    queue_->cancel(op);
  }
  stopping.join();
  EXPECT_TRUE(done.try_wait());
  for (QueueOp& op : ops) {
    ASSERT_EQ(op.calls, 1);
    ASSERT_TRUE(op.error == 0 || op.error == ECANCELED) << op.error;
  }
  EXPECT_GT(queue_->stats().errors, 0U);
  queue_->cancel(ops[0]);
}

TEST_P(IoQueueCancel, ADeadlineThatHasPassedIssuesNothing) {
  std::latch done(3);
  QueueOp late;
  QueueOp in_time;
  QueueOp without;
  late.deadline = steady_clock::now() - std::chrono::seconds(1);
  in_time.deadline = steady_clock::now() + std::chrono::hours(1);
  std::array<IoOp*, 3> batch = {&prepare(late, done, 0, 8 * kBlock), &prepare(in_time, done, 1),
                                &prepare(without, done, 2)};
  queue_->submit(batch);
  done.wait();
  EXPECT_EQ(late.error, ETIMEDOUT);
  EXPECT_EQ(in_time.error, 0);
  EXPECT_EQ(without.error, 0);
  EXPECT_EQ(queue_->stats().requests, 2U);
  queue_->stop();  // does not wait for the alarm of an hour
}

TEST_P(IoQueueCancel, DeadlinesOfThousandsEndEachOnce) {
  start(4);
  constexpr std::uint64_t kOps = 3000;
  std::latch done(kOps);
  std::deque<QueueOp> ops(kOps);
  for (std::uint64_t index = 0; index < kOps; ++index) {
    QueueOp& op = prepare(ops[index], done, index % 100);
    op.deadline = steady_clock::now() + std::chrono::microseconds(200 * (index % 50));
    queue_->submit(op);
  }
  done.wait();
  std::uint64_t late = 0;
  for (const QueueOp& op : ops) {
    ASSERT_EQ(op.calls, 1);
    ASSERT_TRUE(op.error == 0 || op.error == ETIMEDOUT) << op.error;
    late += op.error == ETIMEDOUT ? 1 : 0;
  }
  EXPECT_EQ(queue_->stats().errors, late);
}

INSTANTIATE_TEST_SUITE_P(Engines, IoQueueCancel,
                         testing::Values(EngineKind::kUring, EngineKind::kAio,
                                         EngineKind::kThreads),
                         [](const testing::TestParamInfo<EngineKind>& kind) {
                           return std::string(engine_kind_name(kind.param));
                         });

/// A drive that does not answer until the test writes to it: a FIFO, from which io_uring reads as
/// from a file.
class SilentDrive : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlock = 4096;

  void SetUp() override {
    Result<std::unique_ptr<IoQueue>> queue = IoQueue::start(EngineKind::kUring, {kBlock, 1});
    if (!queue) {
      GTEST_SKIP() << queue.error().message;
    }
    queue_ = std::move(*queue);
    const std::string path = directory_ / "fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    drive_.emplace(
        std::move(File::open(path, File::Access::kReadWrite, DirectMode::kBuffered)).value());
  }
  void TearDown() override {
    if (drive_) {
      answer();  // whatever a failed test has left in flight
      queue_.reset();
    }
  }
  QueueOp& prepare(QueueOp& op, std::latch& done, std::uint64_t blocks) {
    op.set(IoKind::kRead, *drive_, memory_.span().first(blocks * kBlock), 0);
    op.done = &done;
    return op;
  }
  void answer() {
    const std::vector<char> bytes(kBlock, 'x');
    ASSERT_EQ(::write(drive_->fd(), bytes.data(), bytes.size()), ssize_t{kBlock});
  }
  // Waits until the kernel has a request.
  void until_issued() {
    while (queue_->stats().requests == 0) {
      std::this_thread::yield();
    }
  }

  TempDirectory directory_;
  std::optional<File> drive_;
  Memory memory_ = pages(4 * kBlock);
  std::unique_ptr<IoQueue> queue_;
};

TEST_F(SilentDrive, DoesNotHoldUpWhatOnlyWaitsForIt) {
  std::latch stuck_done(1);
  std::latch done(2);
  QueueOp stuck;
  QueueOp waiting;
  QueueOp cancelled;
  waiting.deadline = steady_clock::now() + std::chrono::milliseconds(20);
  queue_->submit(prepare(stuck, stuck_done, 1));
  queue_->submit(prepare(waiting, done, 1));
  queue_->submit(prepare(cancelled, done, 1));
  queue_->cancel(cancelled);
  done.wait();  // by the alarm and the flag alone: no result comes
  EXPECT_EQ(waiting.error, ETIMEDOUT);
  EXPECT_EQ(cancelled.error, ECANCELED);
  EXPECT_FALSE(stuck_done.try_wait());
  answer();
  stuck_done.wait();
  EXPECT_EQ(stuck.error, 0);
}

TEST_F(SilentDrive, KeepsTheMemoryOfALateOperationUntilItAnswers) {
  std::latch done(1);
  std::latch other_done(1);
  QueueOp late;
  QueueOp other;
  late.deadline = steady_clock::now() + std::chrono::milliseconds(10);
  queue_->submit(prepare(late, done, 4));
  until_issued();
  // This one's end shows that the alarm for both has rung.
  other.deadline = late.deadline;
  queue_->submit(prepare(other, other_done, 1));
  other_done.wait();
  EXPECT_FALSE(done.try_wait()) << "the kernel may still write into its memory";
  answer();
  done.wait();
  EXPECT_EQ(late.error, ETIMEDOUT);
  EXPECT_EQ(queue_->stats().requests, 1U) << "nothing more of it was issued";
  // Its memory is its owner's again.
  fill_random(memory_.span(), 1);
  answer();
  const Memory expected = pages(memory_.bytes());
  fill_random(expected.span(), 1);
  std::vector<char> read(kBlock);
  EXPECT_EQ(::read(drive_->fd(), read.data(), read.size()), ssize_t{kBlock}) << "no read took it";
  EXPECT_TRUE(same_bytes(memory_.span(), expected.span()));
}

}  // namespace
}  // namespace penstock
