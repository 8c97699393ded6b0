#include "swap/update/squared_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "swap/transfer/dtype_conversion.h"

namespace penstock {
namespace {

constexpr std::array kTypes{DType::kF32, DType::kBF16, DType::kF16};
constexpr std::array kLanes{VectorLanes::k2, VectorLanes::k4, VectorLanes::k8};

/// Element after element, each into its lane: no blocks, no vectors.
double summed_one_by_one(const std::vector<float>& values, unsigned lane_count) {
  std::vector<double> lanes(lane_count);
  const std::size_t whole = values.size() / lane_count * lane_count;
  for (std::size_t i = 0; i < whole; ++i) {
    lanes[i % lane_count] += static_cast<double>(values[i]) * values[i];
  }
  double sum = 0;
  for (const double lane : lanes) {
    sum += lane;
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    sum += static_cast<double>(values[i]) * values[i];
  }
  return sum;
}

std::vector<std::byte> narrowed(std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  convert(DType::kF32, std::as_bytes(std::span(values)), dtype, bytes);
  convert(dtype, bytes, DType::kF32, std::as_writable_bytes(std::span(values)));
  return bytes;
}

TEST(SquaredSum, AddsInTheOrderOfItsLanesForAnyCountAndType) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.003F);
  for (const std::size_t count : {0U, 1U, 3U, 4U, 7U, 4095U, 4096U, 4097U, 4103U, 8192U, 50'001U}) {
    for (const DType dtype : kTypes) {
      std::vector<float> values(count);
      for (float& value : values) {
        value = normal(random);
      }
      const std::vector<std::byte> bytes = narrowed(values, dtype);
      for (const VectorLanes lanes : kLanes) {
        EXPECT_EQ(squared_sum(bytes, dtype, lanes),
                  summed_one_by_one(values, static_cast<unsigned>(lanes)))
            << count;
      }
    }
  }
}

TEST(SquaredSum, OrdersDifferSoThatTheTestAboveCanFail) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(50'001);
  for (float& value : values) {
    value = normal(random);
  }
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_NE(squared_sum(bytes, DType::kF32, VectorLanes::k2),
            squared_sum(bytes, DType::kF32, VectorLanes::k4));
  EXPECT_NE(squared_sum(bytes, DType::kF32, VectorLanes::k4),
            squared_sum(bytes, DType::kF32, VectorLanes::k8));
}

TEST(SquaredSum, WhatIsNotFiniteShows) {
  std::vector<float> values(5000, 1.0F);
  values[4998] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(
      std::isinf(squared_sum(std::as_bytes(std::span(values)), DType::kF32, VectorLanes::k4)));
  values[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(
      std::isnan(squared_sum(std::as_bytes(std::span(values)), DType::kF32, VectorLanes::k4)));
  EXPECT_TRUE(std::isnan(squared_sum({}, DType::kI64, VectorLanes::k4)));
}

}  // namespace
}  // namespace penstock
