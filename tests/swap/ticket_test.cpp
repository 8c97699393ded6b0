#include "swap/ticket.h"

#include <gtest/gtest.h>

#include <thread>

#include "swap/ticket_state.h"

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
