#include "alloc/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

namespace penstock {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) {
    return fault(Fault::kInvalidArgument, "the value is odd");
  }
  return value / 2;
}

Result<std::string> quarter(int value) {
  const Result<int> first = half(value);
  PENSTOCK_TRY(first);
  PENSTOCK_TRY(half(*first));
  return std::to_string(*half(*first));
}

TEST(Result, TryLeavesWithTheError) {
  EXPECT_EQ(*quarter(8), "2");
  ASSERT_TRUE(quarter(6).has_error());
  EXPECT_EQ(quarter(6).error().code, Fault::kInvalidArgument);
  EXPECT_EQ(quarter(6).error().message, "the value is odd");
}

TEST(Result, ValueOfAnErrorThrowsItsMessage) {
  try {
    (void)half(3).value();
    FAIL() << "did not throw";
  } catch (const PenstockException& exception) {
    EXPECT_STREQ(exception.what(), "the value is odd");
    EXPECT_EQ(exception.code(), Fault::kInvalidArgument);
    EXPECT_EQ(exception.error().message, "the value is odd");
  }
}

TEST(Error, OfTheWorldCarriesErrnoTextAndPath) {
  const Error error = system_error(EACCES, "cannot open /x", "/x");
  EXPECT_EQ(error.system_errno(), EACCES);
  EXPECT_EQ(error.message, "cannot open /x: Permission denied");
  EXPECT_EQ(error.path, "/x");
  EXPECT_EQ(error.code, std::errc::permission_denied);
}

TEST(Error, OfACallerHasNoErrno) {
  const Error error = fault(Fault::kWrongSize, "8 bytes for a tensor of 16");
  EXPECT_EQ(error.system_errno(), 0);
  EXPECT_TRUE(error.path.empty());
  EXPECT_EQ(error.code.category().name(), std::string("penstock"));
}

TEST(Fault, EachHasItsOwnText) {
  std::set<std::string> texts;
  for (int value = static_cast<int>(Fault::kInvalidArgument);
       value <= static_cast<int>(Fault::kUnsupported); ++value) {
    texts.insert(make_error_code(static_cast<Fault>(value)).message());
  }
  EXPECT_EQ(texts.size(), 8U);
  EXPECT_FALSE(texts.contains("unknown fault"));
  EXPECT_EQ(std::error_code(99, fault_category()).message(), "unknown fault");
}

}  // namespace
}  // namespace penstock
