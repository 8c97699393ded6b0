// What the log allocates, and what it does where that is refused.

#include <fmt/format.h>

#include "swap/log.h"
#include "tests/alloc/failing_allocation.h"
#include "tests/swap/log_fixture.h"

namespace penstock {
namespace {

class LogAllocationTest : public LogFixture {};

TEST_F(LogAllocationTest, WhatIsOffNeitherFormatsNorAllocates) {
  read_log_settings();
  const std::string name(300, 'n');
  int formatted = 0;
  refuse_allocation(1, Refuse::kAllAfter);
  log_decision(LogEvent::kEvict, name, [&] {
    ++formatted;
    return fmt::format("{} is a reason that needs memory", name);
  });
  log_info(LogEvent::kNote, [&] {
    ++formatted;
    return name;
  });
  EXPECT_FALSE(allow_allocations());
  EXPECT_EQ(formatted, 0);
}

TEST_F(LogAllocationTest, WithoutMemoryThereIsALineLessAndNoError) {
  log_to(path());
  const std::string name(100, 'n');
  int lost = 0;
  bool is_refused = true;
  for (std::uint64_t number = 1; is_refused; ++number) {
    ASSERT_LT(number, 100U);
    refuse_allocation(number, Refuse::kOne);
    log_decision(LogEvent::kEvict, name, [&] { return std::string(400, 'x'); });
    log_warning({WarningCode::kOverflow, "text"});
    is_refused = allow_allocations();
    lost += is_refused ? 1 : 0;
  }
  EXPECT_GT(lost, 0);
  log_decision(LogEvent::kRetry, "t", [] { return std::string("goes on"); });
  EXPECT_EQ(lines_of(LogEvent::kRetry, "t").size(), 1U);
}

}  // namespace
}  // namespace penstock
