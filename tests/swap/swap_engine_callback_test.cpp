// What a ticket's callback may ask of the engine: its thread may be the one that all I/O needs.

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>

#include "swap/engine/ticket_state.h"
#include "tests/store/flaky_file_system.h"
#include "tests/swap/engine_fixture.h"
#include "tests/swap/sim_engine_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class SwapEngineCallbackTest : public EngineFixture {
 protected:
  static constexpr std::uint64_t kBytes = 6 * kMiB;

  SwapEngineCallbackTest() { file_system_ = &system_; }
  void TearDown() override { engine_.reset(); }  // before its file system
  /// Puts the tensor until the ticket's callback runs on another thread.
  void in_callback(TensorId tensor, const std::vector<std::byte>& data,
                   const std::function<void()>& act) {
    bool has_acted = false;
    while (!has_acted) {
      std::promise<bool> ended;
      std::future<bool> end = ended.get_future();
      engine_->put(tensor, data).then([&](const Ticket&) {
        const bool acts = TicketState::in_callback();
        if (acts) {
          act();
        }
        ended.set_value(acts);
      });
      if (end.wait_for(60s) != std::future_status::ready) {
        ADD_FAILURE() << "the I/O thread waits for who waits for it";
        std::abort();  // nothing could end this engine
      }
      has_acted = end.get();
    }
  }

  FlakyFileSystem system_;
};

/// A plan of another thread that shapes the pool waits for the I/O thread to pin its memory.
TEST_F(SwapEngineCallbackTest, TheFirstGetDoesNotWaitForAnothersPlan) {
  EngineConfig config;
  config.tensors = {{"preferred", {}, {}, Place::kRam, {}}, {"t", {}, {}, Place::kClass, {}}};
  open(64 * kMiB, kBytes + kMiB, config);
  const std::vector<std::byte> data = content(kBytes, 1);
  const TensorId leaves = declare("leaves", kBytes);
  put(leaves, data);
  ASSERT_TRUE(engine_->state(leaves)->resident);
  // Another file, so that the first one has no space yet and must ask for it.
  space_ = engine_->open_namespace("other", {{directory_.path(), {}, {}}}).value();
  const TensorId tensor = declare("t", kBytes);
  declare("preferred", kBytes);
  std::thread planning;
  Ticket got;
  in_callback(tensor, data, [&] {
    // Between the plan, which writes a resident to its drive, and the pool's new shape.
    system_.set_watch([&, io_thread = std::this_thread::get_id()](const std::string&) {
      if (std::this_thread::get_id() == io_thread && !planning.joinable()) {
        planning = std::thread([this] { EXPECT_TRUE(engine_->plan().has_value()); });
        std::this_thread::sleep_for(300ms);  // it has begun to pin
      }
    });
    got = engine_->get(tensor);
  });
  ASSERT_TRUE(planning.joinable()) << "the get made no plan";
  planning.join();
  system_.set_watch({});
  EXPECT_TRUE(got.wait().has_value());
  EXPECT_GT(engine_->stats().pool.pinned_bytes, kBytes);
  expect_content(tensor, data);
  expect_content(leaves, data);
}

class SwapEngineCallbackErrorTest : public SimEngineFixture {
 protected:
  SwapEngineCallbackErrorTest() : SimEngineFixture(256 * kMiB) {}
};

TEST_F(SwapEngineCallbackErrorTest, CallsThatWaitAreErrors) {
  open(8 * kMiB, 0);
  const TensorId tensor = declare("t", kMiB);
  const std::vector<std::byte> data(kMiB, std::byte{1});
  std::vector<Error> errors;
  const auto note = [&errors](const auto& result) {
    errors.push_back(result.has_error() ? result.error() : Error{});
  };
  const Ticket ticket = engine_->put(tensor, data);
  ticket.then([&](const Ticket&) {
    note(engine_->flush());
    note(engine_->close());
    note(engine_->plan());
    note(engine_->read({tensor}));
    note(engine_->write());
    note(engine_->close_namespace(space_));
  });
  ticket.wait().value();
  ASSERT_EQ(errors.size(), 6U);
  for (const Error& error : errors) {
    EXPECT_THAT(error.message, HasSubstr("a ticket's callback cannot call"));
  }
  EXPECT_TRUE(engine_->get(tensor).wait().has_value()) << "all is as it was";
}

}  // namespace
}  // namespace penstock
