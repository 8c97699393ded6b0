#include "swap/async_get.h"

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <cstring>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

namespace asio = boost::asio;

constexpr std::uint64_t kBytes = kMiB + 12;

/// Nothing is kept in memory, so that a get has to read.
class AsyncGetTest : public EngineFixture {
 public:
  static std::vector<std::byte> expected(std::size_t index) {
    return content(kBytes, static_cast<unsigned>(index));
  }

 protected:
  void SetUp() override {
    open(8 * kMiB, 0);
    for (std::size_t index = 0; index < 4; ++index) {
      tensors_.push_back(declare(numbered(index), kBytes));
      put(tensors_.back(), expected(index));
    }
  }

  std::vector<TensorId> tensors_;
};

bool is(const Result<Lease>& lease, std::size_t index) {
  const std::vector<std::byte> bytes = AsyncGetTest::expected(index);
  return lease.has_value() && lease->bytes() == bytes.size() &&
         std::memcmp(lease->data(), bytes.data(), bytes.size()) == 0;
}

TEST_F(AsyncGetTest, CallbacksRunOnceOnTheirExecutor) {
  asio::io_context context;
  int calls = 0;
  for (std::size_t index = 0; index < tensors_.size(); ++index) {
    async_get(*engine_, tensors_[index],
              asio::bind_executor(context, [&calls, index, here = std::this_thread::get_id()](
                                               const Result<Lease>& lease) {
                ++calls;
                EXPECT_EQ(std::this_thread::get_id(), here);
                EXPECT_TRUE(is(lease, index));
              }));
  }
  EXPECT_EQ(calls, 0) << "never within the call";
  context.run();
  EXPECT_EQ(calls, 4);
}

TEST_F(AsyncGetTest, CallbacksWithoutAnExecutorMayBlock) {
  std::promise<bool> good;
  async_get(*engine_, tensors_[0], [&](const Result<Lease>& lease) {
    // On the engine's own thread this would wait for itself.
    const bool other = is(engine_->get(tensors_[1]).lease(), 1);
    good.set_value(is(lease, 0) && other);
  });
  EXPECT_TRUE(good.get_future().get());
}

TEST_F(AsyncGetTest, FuturesHaveTheLeaseOrTheWholeError) {
  std::future<Result<Lease>> future = async_get(*engine_, tensors_[2], asio::use_future);
  EXPECT_TRUE(is(future.get(), 2));
  const TensorId empty = declare("never.put", kBytes);
  const Result<Lease> none = async_get(*engine_, empty, asio::use_future).get();
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("never.put"), std::string::npos) << none.error().message;
  const Result<Lease> unknown = async_get(*engine_, TensorId{999}, asio::use_future).get();
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Fault::kUnknownTensor);
}

asio::awaitable<int> count_in_turn(SwapEngine& engine, const std::vector<TensorId>& tensors) {
  int good = 0;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const Result<Lease> lease = co_await async_get(engine, tensors[index], asio::use_awaitable);
    good += is(lease, index) ? 1 : 0;
  }
  co_return good;
}

TEST_F(AsyncGetTest, CoroutinesGetOneAfterTheOther) {
  asio::io_context context;
  std::future<int> good =
      asio::co_spawn(context, count_in_turn(*engine_, tensors_), asio::use_future);
  context.run();
  EXPECT_EQ(good.get(), 4);
}

asio::awaitable<void> update_two(SwapEngine& engine, TensorId first, TensorId second) {
  using namespace asio::experimental::awaitable_operators;
  auto [one, two] = co_await (async_get(engine, first, Access::kUpdate, asio::use_awaitable) &&
                              async_get(engine, second, Access::kUpdate, asio::use_awaitable));
  for (Lease lease : {one.value(), two.value()}) {
    std::memset(lease.data(), 0x77, lease.bytes());
    EXPECT_TRUE(engine.commit(lease).wait().has_value());
  }
}

TEST_F(AsyncGetTest, CoroutinesUpdateSeveralAtOnce) {
  asio::io_context context;
  std::exception_ptr ended_with;
  asio::co_spawn(context, update_two(*engine_, tensors_[0], tensors_[3]),
                 [&](const std::exception_ptr& error) { ended_with = error; });
  context.run();
  EXPECT_FALSE(ended_with);
  for (const TensorId tensor : {tensors_[0], tensors_[3]}) {
    expect_content(tensor, std::vector<std::byte>(kBytes, std::byte{0x77}));
  }
}

/// Holds the engine's I/O thread in a callback, so that no read ends, until it is destroyed.
class HeldEngine {
 public:
  HeldEngine(SwapEngine& engine, TensorId tensor) {
    const std::thread::id caller = std::this_thread::get_id();
    // A get that is over at once calls back here: then the next one may not be.
    while (!hold_->held) {
      hold_ = std::make_shared<Hold>();
      engine.get(tensor).then([hold = hold_, caller](const Ticket&) {
        hold->held = std::this_thread::get_id() != caller;
        hold->called.count_down();
        if (hold->held) {
          hold->released.wait();
        }
      });
      hold_->called.wait();
    }
  }
  ~HeldEngine() { hold_->released.count_down(); }
  HeldEngine(const HeldEngine&) = delete;
  HeldEngine& operator=(const HeldEngine&) = delete;

 private:
  struct Hold {  // the callback's too: it may begin to wait after it was let go
    std::atomic<bool> held{false};
    std::latch called{1};
    std::latch released{1};
  };
  std::shared_ptr<Hold> hold_ = std::make_shared<Hold>();
};

TEST_F(AsyncGetTest, ASignalGivesUpAtOnceAndTheEngineGoesOn) {
  asio::io_context context;
  asio::cancellation_signal signal;
  int calls = 0;
  std::optional<Result<Lease>> result;
  {
    const HeldEngine held(*engine_, tensors_[1]);
    async_get(*engine_, tensors_[0],
              asio::bind_cancellation_slot(signal.slot(),
                                           asio::bind_executor(context, [&](Result<Lease> lease) {
                                             ++calls;
                                             result.emplace(std::move(lease));
                                           })));
    signal.emit(asio::cancellation_type::terminal);
    signal.emit(asio::cancellation_type::terminal);
    context.run();  // ends although no read does
  }
  EXPECT_EQ(calls, 1);
  ASSERT_TRUE(result && result->has_error());
  EXPECT_EQ(result->error().system_errno(), ECANCELED);
  expect_content(tensors_[0], expected(0));
  signal.emit(asio::cancellation_type::terminal);  // it is over
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(engine_->close().has_value());
}

TEST_F(AsyncGetTest, SignalsMayRaceWithTheEnd) {
  for (int round = 0; round < 50; ++round) {
    asio::cancellation_signal signal;
    std::promise<bool> ended;
    async_get(*engine_, tensors_[0],
              asio::bind_cancellation_slot(signal.slot(), [&](const Result<Lease>& lease) {
                ended.set_value(lease ? is(lease, 0) : lease.error().system_errno() == ECANCELED);
              }));
    signal.emit(asio::cancellation_type::terminal);
    EXPECT_TRUE(ended.get_future().get());
  }
}

TEST_F(AsyncGetTest, AClosedEngineSaysSo) {
  EXPECT_TRUE(engine_->close().has_value());
  EXPECT_FALSE(async_get(*engine_, tensors_[0], asio::use_future).get().has_value());
}

}  // namespace
}  // namespace penstock
