#include "swap/update/random_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace penstock {
namespace {

float widened(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::vector<float> rounded(const std::vector<float>& values, std::uint64_t step) {
  std::vector<std::uint16_t> bits(values.size());
  round_randomly(values, step, std::as_writable_bytes(std::span(bits)));
  std::vector<float> result(values.size());
  std::ranges::transform(bits, result.begin(), widened);
  return result;
}

TEST(RandomRoundingTest, WhatIsBf16AlreadyStays) {
  std::vector<float> values;
  for (unsigned bits = 0; bits <= 0xFFFF; ++bits) {
    if (const float value = widened(static_cast<std::uint16_t>(bits)); !std::isnan(value)) {
      values.push_back(value);
    }
  }
  for (const std::uint64_t step : {1U, 2U, 1000U}) {
    EXPECT_EQ(rounded(values, step), values);
  }
}

TEST(RandomRoundingTest, NanStaysNan) {
  const float signalling = std::bit_cast<float>(0x7F800001U);
  for (const float value : rounded({signalling, -signalling, std::nanf("")}, 7)) {
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST(RandomRoundingTest, IsTheValueOnAverage) {
  constexpr unsigned kSteps = 20'000;
  const float ulp = 1.0F / 128;
  for (const float fraction : {0.01F, 0.3F, 0.5F, 0.97F}) {
    double sum = 0;
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      const float value = rounded({1 + fraction * ulp}, step)[0];
      ASSERT_TRUE(value == 1 || value == 1 + ulp) << value;
      sum += (value - 1) / ulp;
    }
    EXPECT_NEAR(sum / kSteps, fraction, 0.015);  // four standard deviations
  }
}

TEST(RandomRoundingTest, ASecondMomentFollowsItsGradients) {
  constexpr float kBeta = 0.999F;
  constexpr std::size_t kCount = 256;
  std::vector<float> moment(kCount, 1.0F);
  float expected = 1;
  for (std::uint64_t step = 1; step <= 4000; ++step) {
    for (std::size_t i = 0; i < kCount; ++i) {
      const float square = 0.01F * static_cast<float>(1 + i % 2);
      moment[i] = kBeta * moment[i] + (1 - kBeta) * square;
    }
    moment = rounded(moment, step);
    expected = kBeta * expected + (1 - kBeta) * 0.015F;
  }
  double mean = 0;
  for (const float value : moment) {
    mean += value / kCount;
  }
  EXPECT_NEAR(mean / expected, 1, 0.05);  // to nearest it would be 1 still, 30 times as much
}

}  // namespace
}  // namespace penstock
