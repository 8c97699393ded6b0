#include "swap/update/plain_pass.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "swap/transfer/dtype_conversion.h"
#include "swap/update/adagrad.h"
#include "swap/update/lion.h"
#include "tests/update/step_numbers.h"

namespace penstock {
namespace {

struct PlainStates {
  std::vector<float> master;
  std::vector<float> state;

  bool operator==(const PlainStates&) const = default;
};

/// The hash after six steps over whole vectors of any width and three more elements.
std::uint64_t hash_of_steps(const PlainStep& step) {
  constexpr std::size_t kCount = 195;
  PlainStates states{std::vector<float>(kCount), std::vector<float>(kCount)};
  for (std::size_t i = 0; i < kCount; ++i) {
    states.master[i] = fraction(i * 37, 101, 50, 64.0F);
  }
  for (std::size_t t = 1; t <= 6; ++t) {
    std::vector<float> gradient(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      gradient[i] = fraction(i * 53 + t * 29, 97, 48, 256.0F);
    }
    update_plain(step, states.master, states.state, {std::as_bytes(std::span(gradient))}, 1);
  }
  return hash_of_bits({&states.master, &states.state});
}

PlainStep lion(float weight_decay, float learning_rate = 1e-3F) {
  return [=](std::span<float> master, std::span<float> state, std::span<const float> gradient) {
    lion_step({.learning_rate = learning_rate, .beta2 = 0.99F, .weight_decay = weight_decay},
              master, state, gradient);
  };
}

PlainStep adagrad(float weight_decay, float epsilon = 1e-3F) {
  return [weight_decay, epsilon](std::span<float> master, std::span<float> state,
                                 std::span<const float> gradient) {
    adagrad_step({.epsilon = epsilon, .weight_decay = weight_decay}, master, state, gradient);
  };
}

// Made by DeepSpeed 0.19.8's ops, compiled by g++ 12 for AVX-512, on the same numbers.
TEST(PlainSteps, EqualTheCompiledOpsToTheLastBit) {
  EXPECT_EQ(hash_of_steps(lion(0.0F)), 0xa518bb81e9826019);
  EXPECT_EQ(hash_of_steps(lion(0.1F)), 0x22c8c46193738a5);
  EXPECT_EQ(hash_of_steps(lion(0.0F, -1e-3F)), 0xd5b7a81d73ba712d);
  EXPECT_EQ(hash_of_steps(lion(0.1F, -1e-3F)), 0x3a1a825b10ee43e4);
  EXPECT_EQ(hash_of_steps(adagrad(0.0F)), 0xdbcb915b857e3073);
  EXPECT_EQ(hash_of_steps(adagrad(0.1F)), 0xa37e0ba0806e2305);
}

TEST(PlainSteps, FollowTheirFormulas) {
  PlainStates states{{1.0F, -2.0F, 0.5F}, {0.2F, -0.1F, 0.0F}};
  const std::array gradient{-4.0F, 0.5F, 0.25F};
  lion(0.5F)(states.master, states.state, gradient);
  // Directions 0.9*0.2 - 0.1*4 < 0, -0.09 + 0.05 < 0 and 0.025 > 0, each a step of 1e-3.
  const std::array masters{0.9995F + 1e-3F, -1.999F + 1e-3F, 0.49975F - 1e-3F};
  const std::array averages{0.198F - 0.04F, -0.099F + 0.005F, 0.0025F};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(states.master[i], masters[i], 1e-6);
    EXPECT_NEAR(states.state[i], averages[i], 1e-6);
  }

  states = {{1.0F, -2.0F, 0.5F}, {9.0F, 0.0F, 0.0F}};
  adagrad(0.5F, 0.0F)(states.master, states.state, gradient);
  // Gradients with decay -3.5, -0.5 and 0.5; each goes 1e-2 of itself over the root of the sum.
  const std::array sums{9.0F + 12.25F, 0.25F, 0.25F};
  const std::array moved{1.0F + 0.035F / std::sqrt(21.25F), -2.0F + 0.01F, 0.5F - 0.01F};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(states.master[i], moved[i], 1e-6);
    EXPECT_NEAR(states.state[i], sums[i], 1e-6);
  }
}

class PlainPassTest : public testing::TestWithParam<std::tuple<DType, std::size_t, unsigned>> {};

TEST_P(PlainPassTest, EqualsWideningMultiplyingAndStepping) {
  const auto [dtype, count, threads] = GetParam();
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> gradient(count);
  PlainStates found{std::vector<float>(count), std::vector<float>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    gradient[i] = normal(random);
    found.master[i] = normal(random);
  }
  std::vector<std::byte> stored(count * dtype_bytes(dtype));
  convert(DType::kF32, std::as_bytes(std::span(gradient)), dtype, stored);
  const std::vector<std::byte> before = stored;
  for (const float factor : {1.0F, 0.37F}) {
    for (const PlainStep& step : {lion(0.1F), adagrad(0.1F)}) {
      PlainStates expected = found;
      std::vector<float> wide(count);
      convert(dtype, stored, DType::kF32, std::as_writable_bytes(std::span(wide)));
      for (float& value : wide) {
        value *= factor;
      }
      step(expected.master, expected.state, wide);
      update_plain(step, found.master, found.state, {stored, dtype, factor}, threads);
      EXPECT_EQ(found, expected);
      found.state.assign(count, 0.0F);
    }
  }
  EXPECT_EQ(stored, before) << "the gradient is the runtime's";
}

INSTANTIATE_TEST_SUITE_P(, PlainPassTest,
                         testing::Combine(testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                                          testing::Values(0U, 1U, 4096U, 300'017U),
                                          testing::Values(1U, 2U, 5U)));

}  // namespace
}  // namespace penstock
