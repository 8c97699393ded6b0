#include "swap/ticket.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "swap/engine/ticket_state.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;

TEST(Ticket, ReadyAndFailedAreDoneAtOnce) {
  EXPECT_TRUE(Ticket::ready().done());
  EXPECT_TRUE(Ticket::ready().wait().has_value());
  const Ticket failed = Ticket::failed(fault(Fault::kClosed, "no"));
  EXPECT_TRUE(failed.done());
  EXPECT_EQ(failed.wait().error().message, "no");
  EXPECT_EQ(failed.lease().error().message, "no");
}

TEST(Ticket, TimesOutWhileUnderWay) {
  auto state = std::make_shared<TicketState>();
  const Ticket ticket(state);
  EXPECT_FALSE(ticket.done());
  EXPECT_FALSE(ticket.wait_for(1ms).has_value());
  state->fulfil(std::nullopt, {});
  EXPECT_TRUE(ticket.wait_for(1ms).has_value());
}

TEST(Ticket, CallsBackOnceHoweverEarlyOrLate) {
  auto state = std::make_shared<TicketState>();
  const Ticket ticket(state);
  int calls = 0;
  ticket.then([&](const Ticket&) { ++calls; });
  EXPECT_EQ(calls, 0);
  state->fulfil(std::nullopt, {});
  EXPECT_EQ(calls, 1);
  ticket.then([&](const Ticket& done) { calls += done.done() ? 1 : 100; });
  EXPECT_EQ(calls, 2);
}

TEST(Ticket, AnEmptyOneStandsForNothing) {
  const Ticket ticket;
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.wait().error().code, Fault::kInvalidArgument);
  EXPECT_EQ(ticket.lease().error().code, Fault::kInvalidArgument);
  EXPECT_TRUE(ticket.wait_for(1ms).value().has_error());
  int calls = 0;
  ticket.then([&](const Ticket&) { ++calls; });
  ticket.then({});
  EXPECT_EQ(calls, 1);
}

TEST(Ticket, ACallbackThatThrowsIsIgnored) {
  auto state = std::make_shared<TicketState>();
  const Ticket ticket(state);
  int calls = 0;
  ticket.then([&](const Ticket&) {
    ++calls;
    throw std::runtime_error("as it must not");
  });
  ticket.then([](const Ticket&) { throw 5; });
  ticket.then([&](const Ticket&) { ++calls; });
  ticket.then({});
  state->fulfil(std::nullopt, {});
  EXPECT_EQ(calls, 2);
}

TEST(Ticket, ACallbackCannotWaitForWhatIsUnderWay) {
  auto state = std::make_shared<TicketState>();
  auto other = std::make_shared<TicketState>();
  std::vector<std::error_code> codes;
  Ticket(state).then([&](const Ticket& done) {
    codes.push_back(Ticket(other).wait().error().code);
    codes.push_back(Ticket(other).wait_for(1ms).value().error().code);
    codes.push_back(done.wait().has_value() ? std::error_code() : done.wait().error().code);
  });
  state->fulfil(std::nullopt, {});
  const std::error_code refused = make_error_code(Fault::kInvalidArgument);
  EXPECT_EQ(codes, (std::vector<std::error_code>{refused, refused, {}}));
  EXPECT_FALSE(Ticket(other).wait_for(1ms).has_value()) << "another thread can";
}

TEST(Ticket, ManyThreadsMayWait) {
  auto state = std::make_shared<TicketState>(std::make_shared<Waiting>());
  const Ticket ticket(state);
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { woken += ticket.wait().has_value() ? 1 : 0; });
  }
  state->fulfil(std::nullopt, {});
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(woken, 8);
}

}  // namespace
}  // namespace penstock
