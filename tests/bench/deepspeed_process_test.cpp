#include "bench/pair/deepspeed_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::bench {
namespace {

using testing::HasSubstr;

TEST(DeepSpeedAnswerTest, ALeg) {
  const MeasuredRun run =
      parse_deepspeed_answer(
          R"({"read_bytes": 2000, "write_bytes": 7, "seconds": 0.5, "cpu_seconds": 0.25})")
          .value();
  EXPECT_EQ(run.read_bytes, 2000U);
  EXPECT_EQ(run.write_bytes, 7U);
  EXPECT_DOUBLE_EQ(run.seconds, 0.5);
  EXPECT_DOUBLE_EQ(run.cpu_seconds, 0.25);
}

TEST(DeepSpeedAnswerTest, AnError) {
  const auto run = parse_deepspeed_answer(R"({"error": "OSError: no such file"})");
  ASSERT_TRUE(run.has_error());
  EXPECT_THAT(run.error().message, HasSubstr("OSError: no such file"));
}

TEST(DeepSpeedAnswerTest, None) {
  for (const char* const line :
       {"", "x", "7", "[]", "{}",
        R"({"read_bytes": "many", "write_bytes": 0, "seconds": 1, "cpu_seconds": 1})",
        R"({"read_bytes": -1, "write_bytes": 0, "seconds": 1, "cpu_seconds": 1})",
        R"({"read_bytes": 0, "write_bytes": 0, "seconds": 1, "cpu_seconds": 1})"}) {
    EXPECT_TRUE(parse_deepspeed_answer(line).has_error()) << line;
  }
}

}  // namespace
}  // namespace penstock::bench
