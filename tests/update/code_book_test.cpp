#include "swap/update/code_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace penstock {
namespace {

struct Book {
  StateFormat format;
  Moment moment;
};

class CodeBookTest : public testing::TestWithParam<Book> {
 protected:
  const std::vector<float> values_ = code_values(GetParam().format, GetParam().moment);
  const CodeBook& book_ = code_book(GetParam().format, GetParam().moment);

  /// By a look at all of them.
  float distance_to_nearest(float number) const {
    float least = std::numeric_limits<float>::infinity();
    for (const float value : values_) {
      least = std::min(least, std::abs(value - number));
    }
    return least;
  }
  void expect_nearest(float number) const {
    const float found = book_.value(book_.nearest(number));
    if (GetParam().moment == Moment::kSecond && number > 0 && found == values_[1]) {
      EXPECT_LE(number, (values_[1] + values_[2]) / 2);  // what would be 0
      return;
    }
    // Half way between two values both are as near, to the last bit of their mean.
    EXPECT_NEAR(std::abs(found - number), distance_to_nearest(number), 1e-7) << number;
  }
};

TEST_P(CodeBookTest, AValueIsItsOwnNearest) {
  ASSERT_TRUE(std::ranges::is_sorted(values_));
  EXPECT_EQ(values_.size(), GetParam().format == StateFormat::k8Bit ? 256U : 16U);
  EXPECT_EQ(values_.back(), 1.0F);
  for (std::size_t code = 0; code < values_.size(); ++code) {
    EXPECT_EQ(book_.nearest(values_[code]), code);
    EXPECT_EQ(book_.value(static_cast<std::uint8_t>(code)), values_[code]);
  }
}

TEST_P(CodeBookTest, NoValueIsNearerThanTheOneThatIsFound) {
  const float lowest = GetParam().moment == Moment::kFirst ? -1.0F : 0.0F;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> even(lowest, 1);
  std::uniform_real_distribution<float> exponent(-30, 0);
  for (int i = 0; i < 20'000; ++i) {
    const float number = even(random);
    expect_nearest(number);
    expect_nearest(std::copysign(std::exp(exponent(random)), number));
  }
  for (std::size_t i = 0; i + 1 < values_.size(); ++i) {  // around each threshold
    const float middle = (values_[i] + values_[i + 1]) / 2;
    expect_nearest(std::nextafter(middle, -2.0F));
    expect_nearest(middle);
    expect_nearest(std::nextafter(middle, 2.0F));
  }
}

TEST_P(CodeBookTest, APositiveSecondMomentIsNeverZero) {
  const float found = book_.value(book_.nearest(1e-30F));
  EXPECT_EQ(found > 0, GetParam().moment == Moment::kSecond);
}

INSTANTIATE_TEST_SUITE_P(, CodeBookTest,
                         testing::Values(Book{StateFormat::k8Bit, Moment::kFirst},
                                         Book{StateFormat::k8Bit, Moment::kSecond},
                                         Book{StateFormat::k4Bit, Moment::kFirst},
                                         Book{StateFormat::k4Bit, Moment::kSecond}),
                         [](const auto& test) {
                           return std::string(state_format_name(test.param.format)) +
                                  (test.param.moment == Moment::kFirst ? "_first" : "_second");
                         });

/// Numbers that bitsandbytes 0.50.2 (create_dynamic_map) and torchao 0.18.0 (optim/subclass_4bit)
/// give.
TEST(CodeValuesTest, AreThoseOfBitsandbytesAndTorchao) {
  const std::vector<float> first = code_values(StateFormat::k8Bit, Moment::kFirst);
  const std::vector<float> second = code_values(StateFormat::k8Bit, Moment::kSecond);
  EXPECT_FLOAT_EQ(first[0], -0.992968738F);
  EXPECT_FLOAT_EQ(first[126], -5.5e-07F);
  EXPECT_EQ(first[127], 0.0F);
  EXPECT_FLOAT_EQ(first[128], 5.5e-07F);
  EXPECT_FLOAT_EQ(first[254], 0.992968738F);
  EXPECT_EQ(second[0], 0.0F);
  EXPECT_FLOAT_EQ(second[1], 3.25e-07F);
  EXPECT_FLOAT_EQ(second[254], 0.996484339F);
  const std::vector<float> signed4{-0.8875F, -0.6625F, -0.4375F, -0.2125F, -0.0775F, -0.0325F,
                                   -0.0055F, 0.0F,     0.0055F,  0.0325F,  0.0775F,  0.2125F,
                                   0.4375F,  0.6625F,  0.8875F,  1.0F};
  const std::vector<float> found4 = code_values(StateFormat::k4Bit, Moment::kFirst);
  ASSERT_EQ(found4.size(), signed4.size());
  for (std::size_t i = 0; i < signed4.size(); ++i) {
    EXPECT_FLOAT_EQ(found4[i], signed4[i]);
  }
  EXPECT_EQ(code_values(StateFormat::k4Bit, Moment::kSecond).front(), 0.0625F);
}

}  // namespace
}  // namespace penstock
