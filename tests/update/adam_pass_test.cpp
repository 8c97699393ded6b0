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
  const std::vector<StateSegment> segments{{count, StateFormat::kF32}};
  const MomentLayout first(Moment::kFirst, segments);
  const MomentLayout second(Moment::kSecond, segments);
  Adam adam;
  for (const std::uint64_t number : {1U, 2U}) {
    const AdamStep step = adam.step(number, {});
    step_whole(step, expected, stored, dtype, 0.37F);
    update_stretch(step,
                   {.master = found.master,
                    .exp_avg = std::as_writable_bytes(std::span(found.exp_avg)),
                    .exp_avg_sq = std::as_writable_bytes(std::span(found.exp_avg_sq)),
                    .exp_avg_layout = first,
                    .exp_avg_sq_layout = second,
                    .gradient = {stored, dtype, 0.37F}},
                   threads);
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(stored, before) << "the gradient is the runtime's";
}

/// Moments of one stretch with every format, their blocks cut short among them.
class NarrowPassTest : public testing::TestWithParam<unsigned> {
 protected:
  static constexpr std::size_t kElements = 400'003;
  const std::vector<StateSegment> segments_{{100'001, StateFormat::k8Bit},
                                            {7, StateFormat::kF32},
                                            {99'995, StateFormat::k4Bit},
                                            {50'000, StateFormat::kBF16},
                                            {150'000, StateFormat::k8Bit}};
  const MomentLayout first_{Moment::kFirst, segments_};
  const MomentLayout second_{Moment::kSecond, segments_};
};

TEST_P(NarrowPassTest, EqualsDecodingSteppingAndEncoding) {
  const std::vector<float> gradient = normal_floats(kElements, 1);
  std::vector<float> found_master = normal_floats(kElements, 2);
  std::vector<std::byte> found_avg(first_.bytes());
  std::vector<std::byte> found_sq(second_.bytes());
  std::vector<std::byte> encoded_avg = found_avg;
  std::vector<std::byte> encoded_sq = found_sq;
  PassStates expected{found_master, std::vector<float>(kElements), std::vector<float>(kElements)};
  Adam adam;
  for (const std::uint64_t number : {1U, 2U, 3U}) {
    const AdamStep step = adam.step(number, {});
    first_.decode(encoded_avg, expected.exp_avg);
    second_.decode(encoded_sq, expected.exp_avg_sq);
    for (const MomentLayout::Run& run : first_.runs()) {  // their ends are those of vectors
      const auto part = [&run](std::vector<float>& values) {
        return std::span(values).subspan(run.element, run.elements);
      };
      step.update({part(expected.master), part(expected.exp_avg), part(expected.exp_avg_sq),
                   std::span(gradient).subspan(run.element, run.elements)});
    }
    first_.encode(expected.exp_avg, encoded_avg);
    for (const MomentLayout::Run& run : second_.runs()) {
      const auto made = std::span(expected.exp_avg_sq).subspan(run.element, run.elements);
      second_.encode_step(run, made, number, encoded_sq);
    }
    update_stretch(step,
                   {.master = found_master,
                    .exp_avg = found_avg,
                    .exp_avg_sq = found_sq,
                    .exp_avg_layout = first_,
                    .exp_avg_sq_layout = second_,
                    .gradient = {std::as_bytes(std::span(gradient))}},
                   GetParam());
  }
  EXPECT_EQ(found_master, expected.master);
  EXPECT_EQ(found_avg, encoded_avg);
  EXPECT_EQ(found_sq, encoded_sq);
}

TEST(AdamStretchTest, LayoutsOfOtherSegmentsAreNotWhole) {
  constexpr std::size_t kCount = 300;
  std::vector<float> master(kCount);
  const std::vector<float> gradient(kCount);
  const std::vector<StateSegment> segments{{100, StateFormat::k8Bit}, {200, StateFormat::k8Bit}};
  const std::vector<StateSegment> others{{200, StateFormat::k8Bit}, {100, StateFormat::k8Bit}};
  const MomentLayout first(Moment::kFirst, segments);
  const MomentLayout second(Moment::kSecond, segments);
  const MomentLayout other(Moment::kSecond, others);
  std::vector<std::byte> exp_avg(first.bytes());
  std::vector<std::byte> exp_avg_sq(second.bytes());
  const auto is_whole_with = [&](const MomentLayout& layout) {
    return is_whole({.master = master,
                     .exp_avg = exp_avg,
                     .exp_avg_sq = exp_avg_sq,
                     .exp_avg_layout = first,
                     .exp_avg_sq_layout = layout,
                     .gradient = {std::as_bytes(std::span(gradient))}});
  };
  ASSERT_EQ(other.bytes(), second.bytes());
  EXPECT_TRUE(is_whole_with(second));
  EXPECT_FALSE(is_whole_with(other));
}

INSTANTIATE_TEST_SUITE_P(, NarrowPassTest, testing::Values(1U, 2U, 7U));

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
