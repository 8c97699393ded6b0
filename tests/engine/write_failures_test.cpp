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
  failures.note(failure("first"), nullptr);
  failures.note(failure("second"), nullptr);
  const Result<void> said = failures.take();
  ASSERT_TRUE(said.has_error());
  EXPECT_EQ(said.error().message, "first");
  EXPECT_TRUE(failures.take().has_value());
}

TEST(WriteFailuresTest, OneBehindAFailureThatWasSaidIsSaidToo) {
  WriteFailures failures;
  failures.note(failure("first"), nullptr);
  EXPECT_TRUE(failures.take().has_error());
  failures.note(failure("next"), nullptr);
  EXPECT_EQ(failures.take().error().message, "next");
}

TEST(WriteFailuresTest, ATicketHidesNoFailureBehindIt) {
  WriteFailures failures;
  const auto waited_for = std::make_shared<TicketState>();
  failures.note(failure("first"), waited_for);
  failures.note(failure("dropped"), std::make_shared<TicketState>());
  waited_for->note_error_reported();
  EXPECT_EQ(failures.take().error().message, "dropped");
  EXPECT_TRUE(failures.take().has_value());
}

TEST(WriteFailuresTest, WhatATicketHasSaidIsKnown) {
  WriteFailures failures;
  const auto ticket = std::make_shared<TicketState>();
  failures.note(failure("first"), ticket);
  ticket->note_error_reported();
  EXPECT_TRUE(failures.take().has_value());
}

}  // namespace
}  // namespace penstock
