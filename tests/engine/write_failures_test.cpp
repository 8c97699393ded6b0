#include "swap/engine/write_failures.h"

#include <gtest/gtest.h>

#include <memory>

namespace penstock {
namespace {

Error failure(const char* sentence) {
  return fault(Fault::kExhausted, sentence);
}

TEST(WriteFailuresTest, TheFirstIsSaidOnce) {
  WriteFailures failures;
  EXPECT_TRUE(failures.take().has_value());
  failures.note(failure("first"), nullptr, nullptr);
  failures.note(failure("second"), nullptr, nullptr);
  const Result<void> said = failures.take();
  ASSERT_TRUE(said.has_error());
  EXPECT_EQ(said.error().message, "first");
  EXPECT_TRUE(failures.take().has_value());
}

TEST(WriteFailuresTest, OneBehindAFailureThatWasSaidIsSaidToo) {
  WriteFailures failures;
  failures.note(failure("first"), nullptr, nullptr);
  EXPECT_TRUE(failures.take().has_error());
  failures.note(failure("next"), nullptr, nullptr);
  EXPECT_EQ(failures.take().error().message, "next");
}

TEST(WriteFailuresTest, ATicketHidesNoFailureBehindIt) {
  WriteFailures failures;
  const auto waited_for = std::make_shared<TicketState>();
  failures.note(failure("first"), waited_for, nullptr);
  failures.note(failure("dropped"), std::make_shared<TicketState>(), nullptr);
  waited_for->note_error_reported();
  EXPECT_EQ(failures.take().error().message, "dropped");
  EXPECT_TRUE(failures.take().has_value());
}

TEST(WriteFailuresTest, WhatATicketHasSaidIsKnown) {
  WriteFailures failures;
  const auto ticket = std::make_shared<TicketState>();
  failures.note(failure("first"), ticket, nullptr);
  ticket->note_error_reported();
  EXPECT_TRUE(failures.take().has_value());
}

TEST(WriteFailuresTest, OneStoreSaysItsFirstAndLeavesThoseOfOthers) {
  const auto unique_store = [] {  // only what holds it matters
    return std::shared_ptr<SwapStore>(std::make_shared<int>(), nullptr);
  };
  const std::shared_ptr<SwapStore> one = unique_store();
  const std::shared_ptr<SwapStore> other = unique_store();
  WriteFailures failures;
  failures.note(failure("other"), nullptr, other);
  failures.note(failure("one"), nullptr, one);
  failures.note(failure("one again"), nullptr, one);
  EXPECT_EQ(failures.take_of(one).error().message, "one");
  EXPECT_TRUE(failures.take_of(one).has_value());
  EXPECT_EQ(failures.take().error().message, "other");
  EXPECT_TRUE(failures.take_of(other).has_value());
}

}  // namespace
}  // namespace penstock
