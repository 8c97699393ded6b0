#include "alloc/check.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(CheckDeathTest, PrintsPlaceConditionAndValues) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int used = 5;
  const int size = 4;
  EXPECT_DEATH(PENSTOCK_CHECK(used <= size, "used {} of {}", used, size),
               "check_test.cpp:[0-9]+: .*used <= size.*used 5 of 4");
}

TEST(Check, EvaluatesItsValuesOnlyWhenBroken) {
  int evaluated = 0;
  PENSTOCK_CHECK(true, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
}

}  // namespace
}  // namespace penstock
