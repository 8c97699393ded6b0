#include "io/async_io.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <future>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "tests/alloc/same_bytes.h"
#include "tests/io/engine_kind_printing.h"
#include "tests/io/queue_op.h"
#include "tests/io/temp_directory.h"

namespace penstock {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class AsyncIoTest : public testing::TestWithParam<EngineKind> {
 protected:
  static constexpr std::uint32_t kBlock = 64 * 1024;
  static constexpr std::size_t kBytes = 3 * kBlock;

  void SetUp() override {
    Result<std::unique_ptr<IoQueue>> queue = IoQueue::start(GetParam(), {kBlock, 1});
    if (!queue) {
      GTEST_SKIP() << queue.error().message;
    }
    queue_ = std::move(*queue);
    fill_random(source_.span(), 11);
  }
  bool came_back() const { return same_bytes(source_.span(), target_.span()); }
  // Holds the loop in a callback until `open` is counted down.
  void hold_loop(QueueOp& gate, std::latch& open) {
    std::latch reached(1);
    gate.set(IoKind::kWrite, file_, source_.span().first(kBlock), 0);
    gate.before_done = [&] {
      reached.count_down();
      open.wait();
    };
    queue_->submit(gate);
    reached.wait();
  }

  TempDirectory directory_;
  File file_ = std::move(File::create_scratch(directory_.path())).value();
  Memory source_ = pages(kBytes);
  Memory target_ = pages(kBytes);
  std::unique_ptr<IoQueue> queue_;
};

/// The arguments of a callback, and its thread.
struct CallbackResult {
  std::promise<std::thread::id> where;
  error_code code;
  std::size_t bytes = 0;

  auto callback() {
    return [this](error_code ended_with, std::size_t moved) {
      code = ended_with;
      bytes = moved;
      where.set_value(std::this_thread::get_id());
    };
  }
};

TEST_P(AsyncIoTest, CallbacksRunOnNeitherTheLoopNorTheCaller) {
  std::promise<std::thread::id> loop;
  std::latch unused(1);
  QueueOp op;
  op.set(IoKind::kWrite, file_, source_.span().first(kBlock), 0);
  op.done = &unused;
  op.before_done = [&] { loop.set_value(std::this_thread::get_id()); };
  queue_->submit(op);
  const std::thread::id loop_id = loop.get_future().get();
  unused.wait();
  CallbackResult result;
  async_write(*queue_, file_, source_.span(), 0, result.callback());
  const std::thread::id where = result.where.get_future().get();
  EXPECT_NE(where, loop_id);
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_FALSE(result.code);
  EXPECT_EQ(result.bytes, kBytes);
}

TEST_P(AsyncIoTest, CallbacksRunOnTheirExecutorWhichWaitsForThem) {
  asio::io_context context;
  CallbackResult written;
  CallbackResult read;
  async_write(*queue_, file_, source_.span(), 0,
              asio::bind_executor(context, [&](error_code code, std::size_t bytes) {
                written.callback()(code, bytes);
                async_read(*queue_, file_, target_.span(), 0,
                           asio::bind_executor(context, read.callback()));
              }));
  EXPECT_GE(context.run(), 2U) << "it does not run out of work before";
  EXPECT_EQ(written.where.get_future().get(), std::this_thread::get_id());
  EXPECT_EQ(read.where.get_future().get(), std::this_thread::get_id());
  EXPECT_FALSE(read.code);
  EXPECT_TRUE(came_back());
}

TEST_P(AsyncIoTest, CallbacksMayBeMoveOnly) {
  asio::io_context context;
  auto count = std::make_unique<std::size_t>(0);
  std::size_t* const counted = count.get();
  std::unique_ptr<std::size_t> kept;
  async_write(*queue_, file_, source_.span(), 0,
              asio::bind_executor(context, [&kept, count = std::move(count)](
                                               error_code, std::size_t bytes) mutable {
                *count = bytes;
                kept = std::move(count);
              }));
  context.run();
  EXPECT_EQ(*counted, kBytes);
}

TEST_P(AsyncIoTest, FuturesHaveTheBytesOrThrowTheErrno) {
  EXPECT_EQ(async_write(*queue_, file_, source_.span(), 0, asio::use_future).get(), kBytes);
  EXPECT_EQ(async_read(*queue_, file_, target_.span(), 0, asio::use_future).get(), kBytes);
  EXPECT_TRUE(came_back());
  std::future<std::size_t> beyond =
      async_read(*queue_, file_, target_.span(), 16 * kMiB, asio::use_future);
  try {
    beyond.get();
    FAIL() << "there is nothing to read";
  } catch (const boost::system::system_error& error) {
    EXPECT_EQ(error.code(), error_code(ENODATA, boost::system::system_category()));
  }
}

asio::awaitable<void> write_and_read(IoQueue& queue, const File& file, const Memory& source,
                                     const Memory& target, std::thread::id& where) {
  const std::size_t written =
      co_await async_write(queue, file, source.span(), 0, asio::use_awaitable);
  EXPECT_EQ(written, source.bytes());
  EXPECT_EQ(co_await async_read(queue, file, target.span(), 0, asio::use_awaitable), written);
  where = std::this_thread::get_id();
  const auto [code, bytes] = co_await async_read(queue, file, target.span().first(4096), 16 * kMiB,
                                                 asio::as_tuple(asio::use_awaitable));
  EXPECT_EQ(code.value(), ENODATA);
  EXPECT_EQ(bytes, 0U);
  co_await async_read(queue, file, target.span().first(4096), 16 * kMiB, asio::use_awaitable);
}

TEST_P(AsyncIoTest, CoroutinesAreResumedOnTheirExecutorAndGetErrorsThrown) {
  asio::io_context context;
  std::thread::id where;
  std::exception_ptr ended_with;
  asio::co_spawn(context, write_and_read(*queue_, file_, source_, target_, where),
                 [&](const std::exception_ptr& error) { ended_with = error; });
  context.run();
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_TRUE(came_back());
  ASSERT_TRUE(ended_with);
  EXPECT_THROW(std::rethrow_exception(ended_with), boost::system::system_error);
}

asio::awaitable<void> read_parts_at_once(IoQueue& queue, const File& file, const Memory& target) {
  using namespace asio::experimental::awaitable_operators;
  const std::size_t half = target.bytes() / 2 / 4096 * 4096;
  const auto [first, second] =
      co_await (async_read(queue, file, target.span().first(half), 0, asio::use_awaitable) &&
                async_read(queue, file, target.span().subspan(half), half, asio::use_awaitable));
  EXPECT_EQ(first + second, target.bytes());
}

TEST_P(AsyncIoTest, CoroutinesMayWaitForSeveral) {
  async_write(*queue_, file_, source_.span(), 0, asio::use_future).get();
  asio::io_context context;
  asio::co_spawn(context, read_parts_at_once(*queue_, file_, target_), asio::detached);
  context.run();
  EXPECT_TRUE(came_back());
}

TEST_P(AsyncIoTest, DeferredOperationsBeginWhenInitiated) {
  auto write = async_write(*queue_, file_, source_.span(), 0, asio::deferred);
  EXPECT_EQ(queue_->stats().write_ops, 0U);
  EXPECT_EQ(std::move(write)(asio::use_future).get(), kBytes);
}

TEST_P(AsyncIoTest, ASignalAtTheSlotCancels) {
  std::latch gate_done(1);
  std::latch open(1);
  QueueOp gate;
  gate.done = &gate_done;
  hold_loop(gate, open);
  asio::io_context context;
  std::array<asio::cancellation_signal, 2> signals;
  std::array<CallbackResult, 2> result;
  for (std::size_t index = 0; index < result.size(); ++index) {
    async_write(*queue_, file_, source_.span(), 0,
                asio::bind_cancellation_slot(
                    signals[index].slot(), asio::bind_executor(context, result[index].callback())));
  }
  signals[1].emit(asio::cancellation_type::terminal);
  open.count_down();
  context.run();
  EXPECT_FALSE(result[0].code);
  EXPECT_EQ(result[1].code, asio::error::operation_aborted);
  EXPECT_EQ(result[1].bytes, 0U);
  for (asio::cancellation_signal& signal : signals) {
    signal.emit(asio::cancellation_type::terminal);  // all is over
  }
  gate_done.wait();
}

asio::awaitable<void> give_up_waiting(IoQueue& queue, const File& file, const Memory& memory,
                                      std::latch& open) {
  using namespace asio::experimental::awaitable_operators;
  asio::steady_timer soon(co_await asio::this_coro::executor, std::chrono::milliseconds(1));
  const auto open_then_expire = [&]() -> asio::awaitable<void> {
    co_await soon.async_wait(asio::use_awaitable);
    open.count_down();
  };
  const auto first = co_await (async_write(queue, file, memory.span(), 0, asio::use_awaitable) ||
                               open_then_expire());
  EXPECT_EQ(first.index(), 1U) << "the loop was held until then";
}

TEST_P(AsyncIoTest, CoroutinesGiveUpWhatAnotherOvertakes) {
  std::latch gate_done(1);
  std::latch open(1);
  QueueOp gate;
  gate.done = &gate_done;
  hold_loop(gate, open);
  asio::io_context context;
  bool ended = false;
  asio::co_spawn(context, give_up_waiting(*queue_, file_, source_, open),
                 [&](const std::exception_ptr& error) { ended = error == nullptr; });
  context.run();
  EXPECT_TRUE(ended);
  gate_done.wait();
}

TEST_P(AsyncIoTest, SignalsMayRaceWithTheEnd) {
  for (int round = 0; round < 200; ++round) {
    asio::cancellation_signal signal;
    CallbackResult result;
    async_read(*queue_, file_, target_.span(), 0,
               asio::bind_cancellation_slot(signal.slot(), result.callback()));
    signal.emit(asio::cancellation_type::total);
    result.where.get_future().wait();
    EXPECT_TRUE(result.code == asio::error::operation_aborted || result.code.value() == ENODATA)
        << result.code.message();
  }
}

TEST_P(AsyncIoTest, AfterStopOperationsAreAbortedAndNotWithinTheCall) {
  queue_->stop();
  asio::io_context context;
  CallbackResult on_context;
  async_read(*queue_, file_, target_.span(), 0,
             asio::bind_executor(context, on_context.callback()));
  auto future = on_context.where.get_future();
  EXPECT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  context.run();
  EXPECT_EQ(future.get(), std::this_thread::get_id());
  EXPECT_EQ(on_context.code, asio::error::operation_aborted);
  CallbackResult without_executor;
  async_read(*queue_, file_, target_.span(), 0, without_executor.callback());
  EXPECT_NE(without_executor.where.get_future().get(), std::this_thread::get_id());
  EXPECT_THROW(async_read(*queue_, file_, target_.span(), 0, asio::use_future).get(),
               boost::system::system_error);
}

/// Counts what it gives out and takes back.
template <class T>
struct CountingAllocator {
  using value_type = T;

  explicit CountingAllocator(std::atomic<int>& balance, std::atomic<int>& total)
      : live(&balance), all(&total) {}
  template <class U>
  explicit(false) CountingAllocator(const CountingAllocator<U>& other)
      : live(other.live), all(other.all) {}
  T* allocate(std::size_t count) {
    ++*live;
    ++*all;
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* address, std::size_t count) {
    --*live;
    std::allocator<T>().deallocate(address, count);
  }
  template <class U>
  bool operator==(const CountingAllocator<U>& other) const {
    return live == other.live;
  }

  std::atomic<int>* live;
  std::atomic<int>* all;
};

TEST_P(AsyncIoTest, MemoryIsTheAssociatedAllocators) {
  std::atomic<int> live{0};
  std::atomic<int> all{0};
  {
    asio::io_context context;
    CallbackResult result;
    async_write(*queue_, file_, source_.span(), 0,
                asio::bind_allocator(CountingAllocator<void>(live, all),
                                     asio::bind_executor(context, result.callback())));
    context.run();
    EXPECT_FALSE(result.code);
  }
  EXPECT_GT(all, 0);
  EXPECT_EQ(live, 0);
}

TEST_P(AsyncIoTest, ThousandsAtOnce) {
  constexpr std::size_t kOps = 2000;
  std::vector<std::future<std::size_t>> futures;
  for (std::size_t index = 0; index < kOps; ++index) {
    futures.push_back(
        async_write(*queue_, file_, source_.span().first(4096), index * 4096, asio::use_future));
  }
  for (std::future<std::size_t>& future : futures) {
    EXPECT_EQ(future.get(), 4096U);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, AsyncIoTest,
                         testing::Values(EngineKind::kUring, EngineKind::kAio,
                                         EngineKind::kThreads),
                         [](const testing::TestParamInfo<EngineKind>& kind) {
                           return std::string(engine_kind_name(kind.param));
                         });

}  // namespace
}  // namespace penstock
