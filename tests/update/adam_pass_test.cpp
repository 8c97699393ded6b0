#include "swap/update/adam_pass.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "swap/transfer/dtype_conversion.h"

namespace penstock {
namespace {

struct PassStates {
  std::vector<float> master;
  std::vector<float> exp_avg;
  std::vector<float> exp_avg_sq;

  bool operator==(const PassStates&) const = default;
};

std::vector<float> normal_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

/// As a runtime without the pass: the whole gradient widened, then multiplied, then stepped.
void step_whole(const AdamStep& step, PassStates& states, std::span<const std::byte> gradient,
                DType dtype, float factor) {
  std::vector<float> wide(states.master.size());
  convert(dtype, gradient, DType::kF32, std::as_writable_bytes(std::span(wide)));
  for (float& value : wide) {
    value *= factor;
  }
  step.update({states.master, states.exp_avg, states.exp_avg_sq, wide});
}

class AdamPassTest : public testing::TestWithParam<std::tuple<DType, std::size_t, unsigned>> {};

TEST_P(AdamPassTest, EqualsWideningMultiplyingAndStepping) {
  const auto [dtype, count, threads] = GetParam();
  const std::vector<float> gradient = normal_floats(count, 1);
  std::vector<std::byte> stored(count * dtype_bytes(dtype));
  convert(DType::kF32, std::as_bytes(std::span(gradient)), dtype, stored);
  const std::vector<std::byte> before = stored;
  PassStates found{normal_floats(count, 2), std::vector<float>(count), std::vector<float>(count)};
  PassStates expected = found;
  Adam adam;
  for (const std::uint64_t number : {1U, 2U}) {
    const AdamStep step = adam.step(number, {});
    step_whole(step, expected, stored, dtype, 0.37F);
    update_stretch(step,
                   {.master = found.master,
                    .exp_avg = found.exp_avg,
                    .exp_avg_sq = found.exp_avg_sq,
                    .gradient = stored,
                    .gradient_dtype = dtype,
                    .gradient_factor = 0.37F},
                   threads);
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(stored, before) << "the gradient is the runtime's";
}

INSTANTIATE_TEST_SUITE_P(, AdamPassTest,
                         testing::Combine(testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                                          testing::Values(0U, 1U, 4096U, 4099U, 400'003U),
                                          testing::Values(1U, 2U, 7U)),
                         [](const auto& test) {
                           return std::string(dtype_name(std::get<0>(test.param))) + "_" +
                                  std::to_string(std::get<1>(test.param)) + "_" +
                                  std::to_string(std::get<2>(test.param));
                         });

}  // namespace
}  // namespace penstock
