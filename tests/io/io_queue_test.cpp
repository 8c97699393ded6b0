#include "io/io_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <latch>
#include <thread>

#include "tests/alloc/same_bytes.h"
#include "tests/io/engine_kind_printing.h"
#include "tests/io/queue_op.h"
#include "tests/io/temp_directory.h"

namespace penstock {

static std::string name_of(EngineKind kind) {
  return std::string(engine_kind_name(kind));
}

namespace {

class IoQueueTest : public testing::TestWithParam<EngineKind> {
 protected:
  static constexpr std::uint32_t kBlock = 64 * 1024;

  void SetUp() override { start(8); }
  void start(std::uint32_t depth) {
    Result<std::unique_ptr<IoQueue>> queue = IoQueue::start(GetParam(), {kBlock, depth});
    if (!queue) {
      GTEST_SKIP() << queue.error().message;
    }
    queue_ = std::move(*queue);
  }
  QueueOp& prepare(QueueOp& op, std::latch& done, IoKind kind, std::uint64_t index,
                   std::uint64_t bytes = kBlock) {
    op.set(kind, file_, memory_.span().subspan(index * bytes, bytes), index * bytes);
    op.done = &done;
    return op;
  }

  TempDirectory directory_;
  File file_ = std::move(File::create_scratch(directory_.path())).value();
  Memory memory_ = pages(64 * kMiB);
  std::unique_ptr<IoQueue> queue_;
};

TEST_P(IoQueueTest, CallsBackOnItsOwnThread) {
  std::latch done(1);
  QueueOp op;
  bool on_loop = false;
  op.before_done = [&] { on_loop = queue_->on_loop_thread(); };
  queue_->submit(prepare(op, done, IoKind::kWrite, 0));
  done.wait();
  EXPECT_TRUE(on_loop);
  EXPECT_NE(op.thread, std::this_thread::get_id());
  EXPECT_FALSE(queue_->on_loop_thread());
  EXPECT_EQ(op.error, 0);
  EXPECT_EQ(queue_->stats().write_ops, 1U) << "counted before it was called back";
  EXPECT_EQ(queue_->stats().write_bytes, kBlock);
}

TEST_P(IoQueueTest, NoticesArriveOnItsOwnThreadUntilItStops) {
  std::atomic<int> notices = 0;
  std::latch arrived(1);
  queue_->on_notify([&] {
    EXPECT_TRUE(queue_->on_loop_thread());
    if (notices++ == 0) {
      queue_->notify();  // one more, after this one
      return;
    }
    arrived.count_down();
  });
  queue_->notify();
  arrived.wait();
  EXPECT_EQ(notices, 2);
  queue_->stop();
  queue_->notify();
  EXPECT_EQ(notices, 2);
}

TEST_P(IoQueueTest, TakesOperationsFromManyThreads) {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kOps = 400;
  constexpr std::uint64_t kBytes = 8 * kKiB;
  fill_random(memory_.span().first(kThreads * kOps * kBytes), 9);
  const Memory original = pages(kThreads * kOps * kBytes);
  std::memcpy(original.data(), memory_.data(), original.bytes());
  for (const IoKind kind : {IoKind::kWrite, IoKind::kRead}) {
    std::latch done(kThreads * kOps);
    std::deque<QueueOp> ops(kThreads * kOps);
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        std::vector<IoOp*> batch;
        for (std::uint64_t index = number * kOps; index < (number + 1) * kOps; ++index) {
          IoOp& op = prepare(ops[index], done, kind, index, kBytes);
          op.priority = static_cast<IoPriority>(index % kIoPriorities);
          if (number % 2 == 0) {
            queue_->submit(op);
          } else {
            batch.push_back(&op);
          }
          if (index % 7 == 0) {
            queue_->promote(op);
          }
          if (batch.size() == 10) {
            queue_->submit(batch);
            batch.clear();
          }
        }
        queue_->submit(batch);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    done.wait();
    for (const QueueOp& op : ops) {
      ASSERT_EQ(op.calls, 1);
      ASSERT_EQ(op.error, 0);
    }
    if (kind == IoKind::kWrite) {
      std::memset(memory_.data(), 0, original.bytes());
    }
  }
  EXPECT_TRUE(same_bytes(memory_.span().first(original.bytes()), original.span()));
  const IoStats stats = queue_->stats();
  EXPECT_EQ(stats.write_ops, kThreads * kOps);
  EXPECT_EQ(stats.read_bytes, original.bytes());
  EXPECT_EQ(stats.errors, 0U);
}

// The gate's callback holds the loop while the test arranges what comes next.
TEST_P(IoQueueTest, PromotedOperationsOvertake) {
  start(1);
  constexpr std::size_t kAhead = 6;
  std::latch done(kAhead + 1);
  std::latch gate_reached(1);
  std::latch gate_open(1);
  std::vector<std::size_t> order;
  QueueOp gate;
  gate.before_done = [&] {
    gate_reached.count_down();
    gate_open.wait();
  };
  std::deque<QueueOp> ops(kAhead);
  std::vector<IoOp*> batch = {&prepare(gate, done, IoKind::kWrite, 0)};
  for (std::size_t index = 0; index < kAhead; ++index) {
    QueueOp& op = prepare(ops[index], done, IoKind::kWrite, index);
    op.priority = IoPriority::kAhead;
    op.before_done = [&order, index] { order.push_back(index); };
    // The first four reach the engine with the gate, the others wait in front of it.
    batch.push_back(&op);
  }
  queue_->submit(std::span(batch).first(5));
  gate_reached.wait();
  queue_->submit(std::span(batch).subspan(5));
  queue_->promote(ops[3]);
  queue_->promote(ops[5]);
  gate_open.count_down();
  done.wait();
  // 0 was issued before the gate's callback ran; nothing else was.
  EXPECT_EQ(order.size(), kAhead);
  const auto place = [&](std::size_t index) {
    return std::ranges::find(order, index) - order.begin();
  };
  EXPECT_EQ(place(0), 0);
  EXPECT_LT(place(3), place(1));
  EXPECT_LT(place(3), place(2));
  EXPECT_LT(place(5), place(4));
  EXPECT_LT(place(5), place(2));
}

TEST_P(IoQueueTest, StopLetsEverythingSubmittedComplete) {
  constexpr std::uint64_t kOps = 200;
  std::latch done(kOps);
  std::deque<QueueOp> ops(kOps);
  for (std::uint64_t index = 0; index < kOps; ++index) {
    queue_->submit(prepare(ops[index], done, IoKind::kWrite, index, 4 * kBlock));
  }
  queue_->stop();
  EXPECT_TRUE(done.try_wait());
  for (const QueueOp& op : ops) {
    EXPECT_EQ(op.error, 0);
  }
  queue_->stop();
  EXPECT_EQ(queue_->stats().write_ops, kOps) << "the numbers stay";
}

TEST_P(IoQueueTest, AfterStopOperationsAreCancelledWhereTheyAreSubmitted) {
  queue_->stop();
  std::latch done(2);
  QueueOp first;
  QueueOp second;
  IoOp* const batch[] = {&prepare(first, done, IoKind::kWrite, 0),
                         &prepare(second, done, IoKind::kRead, 1)};
  queue_->submit(batch);
  EXPECT_TRUE(done.try_wait());
  for (const QueueOp* op : {&first, &second}) {
    EXPECT_EQ(op->error, ECANCELED);
    EXPECT_EQ(op->calls, 1);
    EXPECT_EQ(op->thread, std::this_thread::get_id());
    EXPECT_EQ(op->state, IoOp::State::kDone);
  }
  queue_->promote(first);
  EXPECT_EQ(queue_->register_memory(memory_.span()).error().code, Fault::kClosed);
  queue_->unregister_memory(memory_.span());
}

TEST_P(IoQueueTest, CallbacksMaySubmitEvenWhileItStops) {
  std::latch done(1000);  // counts calls; no thread waits for it
  QueueOp op;
  op.before_done = [&] {
    if (op.error == 0 && op.calls < 500) {
      queue_->submit(op);
    }
  };
  queue_->submit(prepare(op, done, IoKind::kWrite, 0));
  queue_->stop();
  EXPECT_GE(op.calls, 1);
  EXPECT_TRUE(op.error == ECANCELED || op.calls == 500);
}

// What a callback posts runs after what other threads posted while the callback ran.
TEST_P(IoQueueTest, TheStopLeavesTimeForWhatACallbackHasJustSubmitted) {
  std::latch done(2);
  std::latch submitted(1);
  QueueOp first;
  QueueOp second;
  first.before_done = [&] {
    queue_->submit(prepare(second, done, IoKind::kWrite, 1));
    queue_->promote(second);
    submitted.count_down();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the stop is posted meanwhile
  };
  queue_->submit(prepare(first, done, IoKind::kWrite, 0));
  submitted.wait();
  queue_->stop();
  EXPECT_TRUE(done.try_wait());
  EXPECT_EQ(second.calls, 1);
  EXPECT_EQ(second.error, 0);
}

TEST_P(IoQueueTest, APromotionMayComeAfterTheStop) {
  std::latch done(1);
  std::latch promoted(1);
  QueueOp op;
  op.before_done = [&] {
    queue_->promote(op);
    promoted.count_down();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the stop is posted meanwhile
  };
  queue_->submit(prepare(op, done, IoKind::kWrite, 0));
  promoted.wait();
  queue_->stop();
  EXPECT_TRUE(done.try_wait());
}

TEST_P(IoQueueTest, SubmittersMayRaceWithStop) {
  for (int round = 0; round < 20; ++round) {
    start(8);
    constexpr std::uint64_t kThreads = 3;
    constexpr std::uint64_t kOps = 50;
    std::latch done(kThreads * kOps);
    std::deque<QueueOp> ops(kThreads * kOps);
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        for (std::uint64_t index = number * kOps; index < (number + 1) * kOps; ++index) {
          IoOp& op = prepare(ops[index], done, IoKind::kWrite, index, 4 * kKiB);
          queue_->submit(op);
          (void)queue_->stats();
        }
      });
    }
    queue_->stop();
    for (std::thread& thread : threads) {
      thread.join();
    }
    done.wait();
    for (const QueueOp& op : ops) {
      ASSERT_TRUE(op.error == 0 || op.error == ECANCELED) << op.error;
    }
  }
}

TEST_P(IoQueueTest, MemoryIsRegisteredFromAnywhere) {
  const std::span<std::byte> part = memory_.span().first(2 * kMiB);
  if (const Result<void> registered = queue_->register_memory(part); !registered) {
    ASSERT_EQ(registered.error().system_errno(), ENOMEM) << registered.error().message;
    GTEST_SKIP() << registered.error().message;
  }
  std::latch done(1);
  QueueOp op;
  op.before_done = [&] {
    queue_->unregister_memory(part);  // on the loop's own thread: must not wait for it
    EXPECT_TRUE(queue_->register_memory(part).has_value());
  };
  queue_->submit(prepare(op, done, IoKind::kWrite, 0, 4 * kMiB));
  done.wait();
  EXPECT_EQ(op.error, 0);
  queue_->unregister_memory(part);
}

TEST_P(IoQueueTest, ErrorsArriveWithTheirPlace) {
  std::latch done(1);
  QueueOp op;
  queue_->submit(prepare(op, done, IoKind::kRead, 3));
  done.wait();
  EXPECT_EQ(op.error, ENODATA);
  EXPECT_EQ(op.error_offset, 3 * kBlock);
  EXPECT_EQ(queue_->stats().errors, 1U);
}

TEST_P(IoQueueTest, BadOptionsAreAnError) {
  const auto queue = IoQueue::start(GetParam(), {.block_bytes = 5});
  ASSERT_FALSE(queue);
  EXPECT_EQ(queue.error().code, Fault::kInvalidArgument);
}

TEST_P(IoQueueTest, NamesItsEngine) {
  EXPECT_EQ(queue_->engine_name(), name_of(GetParam()));
  EXPECT_TRUE(queue_->refusals().empty());
}

INSTANTIATE_TEST_SUITE_P(Engines, IoQueueTest,
                         testing::Values(EngineKind::kUring, EngineKind::kAio,
                                         EngineKind::kThreads),
                         [](const testing::TestParamInfo<EngineKind>& kind) {
                           return name_of(kind.param);
                         });

}  // namespace
}  // namespace penstock
