#include <gtest/gtest.h>

#include "swap/plan/inventory.h"

namespace penstock {
namespace {

TEST(DTypeTest, EveryNameReadsBackAsItself) {
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    const Result<DType> parsed = parse_dtype(dtype_name(dtype));
    ASSERT_TRUE(parsed.has_value()) << dtype_name(dtype);
    EXPECT_EQ(*parsed, dtype);
  }
}

TEST(DTypeTest, TakesWhatOthersCallThem) {
  EXPECT_EQ(parse_dtype("BF16").value(), DType::kBF16);
  EXPECT_EQ(parse_dtype("torch.bfloat16").value(), DType::kBF16);
  EXPECT_EQ(parse_dtype("float32").value(), DType::kF32);
  EXPECT_EQ(parse_dtype("fp32").value(), DType::kF32);
  EXPECT_EQ(parse_dtype("F8_E4M3").value(), DType::kF8E4M3);
  EXPECT_EQ(parse_dtype("torch.float8_e5m2").value(), DType::kF8E5M2);
  EXPECT_EQ(parse_dtype("I64").value(), DType::kI64);
  EXPECT_EQ(parse_dtype("uint8").value(), DType::kU8);
}

TEST(DTypeTest, KnowsTheirBytes) {
  EXPECT_EQ(dtype_bytes(DType::kBool), 1U);
  EXPECT_EQ(dtype_bytes(DType::kF8E4M3), 1U);
  EXPECT_EQ(dtype_bytes(DType::kBF16), 2U);
  EXPECT_EQ(dtype_bytes(DType::kF32), 4U);
  EXPECT_EQ(dtype_bytes(DType::kU64), 8U);
  EXPECT_EQ(dtype_bits(DType::kF4), 4U);
  EXPECT_EQ(dtype_bytes(DType::kF4), 1U) << "rounded up";
}

TEST(DTypeTest, ElementsOfAFewBitsLieSideBySide) {
  TensorInfo info{"t", DType::kF6E2M3, {4, 3}, Role::kParam};
  EXPECT_EQ(info.bytes(), 9U);
  EXPECT_TRUE(info.is_whole_bytes());
  info.shape = {3};
  EXPECT_FALSE(info.is_whole_bytes());
  info = {"t", DType::kF4, {std::uint64_t{1} << 62}, Role::kParam};
  EXPECT_EQ(info.bytes(), std::uint64_t{1} << 61) << "a sum of bits would have wrapped";
}

TEST(DTypeTest, RefusesTheUnknownWithTheNearestName) {
  const Result<DType> parsed = parse_dtype("bf61");
  ASSERT_TRUE(parsed.has_error());
  EXPECT_EQ(
      parsed.error().message.find("\"bf61\" is not a known element type; did you mean \"bf16\"?"),
      0U);
  EXPECT_TRUE(parse_dtype("").has_error());
  EXPECT_TRUE(parse_dtype("torch.").has_error());
  EXPECT_TRUE(parse_dtype("F3").has_error());
}

TEST(RoleTest, EveryNameReadsBackAsItself) {
  for (const Role role :
       {Role::kParam, Role::kMaster, Role::kMoment, Role::kGradient, Role::kBuffer}) {
    EXPECT_EQ(parse_role(role_name(role)).value(), role);
  }
  EXPECT_TRUE(parse_role("params").has_error());
}

}  // namespace
}  // namespace penstock
