#include "alloc/counted.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(CountedTest, OneIsSingular) {
  EXPECT_EQ(counted(0, "tensor"), "0 tensors");
  EXPECT_EQ(counted(1, "tensor"), "1 tensor");
  EXPECT_EQ(counted(197, "tensor"), "197 tensors");
  EXPECT_EQ(counted(1, "pass"), "1 pass");
  EXPECT_EQ(counted(3, "pass"), "3 passes");
}

}  // namespace
}  // namespace penstock
