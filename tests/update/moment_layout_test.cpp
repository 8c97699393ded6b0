#include "swap/update/moment_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace penstock {
namespace {

std::vector<float> heavy_tailed(std::size_t count, Moment moment, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(random) * std::exp(2 * normal(random));
    value = moment == Moment::kSecond ? value * value : value;
  }
  return values;
}

struct Case {
  StateFormat format;
  Moment moment;
};

class MomentLayoutTest : public testing::TestWithParam<Case> {
 protected:
  MomentLayout layout(std::size_t elements) const {
    const StateSegment segment{elements, GetParam().format};
    return {GetParam().moment, {&segment, 1}};
  }
  std::vector<std::byte> encoded(std::span<const float> values) const {
    const MomentLayout layout = this->layout(values.size());
    std::vector<std::byte> bytes(layout.bytes(), std::byte{0xa5});  // memory that was used before
    layout.encode(values, bytes);
    return bytes;
  }
  std::vector<float> decoded(std::span<const std::byte> bytes, std::size_t elements) const {
    std::vector<float> values(elements, -7);
    layout(elements).decode(bytes, values);
    return values;
  }
  std::vector<float> rounded(std::span<const float> values) const {
    return decoded(encoded(values), values.size());
  }
};

TEST_P(MomentLayoutTest, WhatIsDecodedEncodesToTheSameBytes) {
  for (const std::size_t count : {1U, 2U, 3U, 127U, 255U, 257U, 4095U, 4097U, 10'001U}) {
    for (unsigned seed = 0; seed < 5; ++seed) {
      const std::vector<std::byte> once = encoded(heavy_tailed(count, GetParam().moment, seed));
      EXPECT_EQ(encoded(decoded(once, count)), once) << count << " elements, seed " << seed;
    }
  }
}

TEST_P(MomentLayoutTest, ErrorsAreWithinTheBound) {
  const std::size_t count = 100'000;
  const std::vector<float> values = heavy_tailed(count, GetParam().moment, 3);
  const std::vector<float> found = rounded(values);
  const bool has_codes =
      GetParam().format == StateFormat::k8Bit || GetParam().format == StateFormat::k4Bit;
  const std::size_t block =
      GetParam().format == StateFormat::k8Bit ? k8BitBlockElements : k4BitBlockElements;
  const std::vector<float> codes =
      has_codes ? code_values(GetParam().format, GetParam().moment) : std::vector<float>();
  float widest = 0;
  for (std::size_t i = 0; i + 1 < codes.size(); ++i) {
    widest = std::max(widest, codes[i + 1] - codes[i]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const begin = values.data() + i / block * block;
    const auto* const end = values.data() + std::min(count, (i / block + 1) * block);
    const float scale = std::abs(
        *std::max_element(begin, end, [](float a, float b) { return std::abs(a) < std::abs(b); }));
    // Below the lowest code of a map without 0, and above -1, which no map has, the bound is wider.
    const float bound =
        has_codes ? std::max(widest / 2, 1.0F / 16) * 1.0001F * scale : std::abs(values[i]) / 256;
    ASSERT_LE(std::abs(found[i] - values[i]), bound) << values[i] << " of " << scale;
  }
}

TEST_P(MomentLayoutTest, ZeroBytesAreZeros) {
  const std::vector<std::byte> bytes(layout(5000).bytes());
  EXPECT_EQ(decoded(bytes, 5000), std::vector<float>(5000));
  EXPECT_EQ(rounded(std::vector<float>(5000)), std::vector<float>(5000));
}

TEST_P(MomentLayoutTest, WhatIsNotFiniteShows) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(1000, 0.5F);
    values[300] = bad;
    const std::vector<float> found = rounded(values);
    EXPECT_FALSE(std::isfinite(found[300]));
    EXPECT_EQ(found[999], 0.5F) << "other blocks are as they were";
  }
}

TEST_P(MomentLayoutTest, TinyNumbersKeepTheirBytes) {
  for (const float scale : {1e-20F, 1e-38F, 1e-43F}) {
    std::vector<float> values = heavy_tailed(600, GetParam().moment, 1);
    for (float& value : values) {
      value *= scale;
    }
    const std::vector<float> once = rounded(values);
    EXPECT_EQ(rounded(once), once) << scale;
  }
}

INSTANTIATE_TEST_SUITE_P(, MomentLayoutTest,
                         testing::Values(Case{StateFormat::kBF16, Moment::kFirst},
                                         Case{StateFormat::k8Bit, Moment::kFirst},
                                         Case{StateFormat::k8Bit, Moment::kSecond},
                                         Case{StateFormat::k4Bit, Moment::kFirst},
                                         Case{StateFormat::k4Bit, Moment::kSecond}),
                         [](const auto& test) {
                           return std::string(state_format_name(test.param.format)) +
                                  (test.param.moment == Moment::kFirst ? "_first" : "_second");
                         });

TEST(BlockScaleTest, WhatLiesInPaddingChangesNothing) {
  constexpr std::size_t kOwn = 1001;
  for (const StateFormat format : {StateFormat::k8Bit, StateFormat::k4Bit}) {
    const auto rounded = [&](float unset, std::size_t padding) {
      const StateSegment segment{kOwn + padding, format, padding};
      const MomentLayout layout(Moment::kSecond, {&segment, 1});
      std::vector<float> values = heavy_tailed(kOwn, Moment::kSecond, 1);
      values.resize(kOwn + padding, unset);
      std::vector<std::byte> bytes(layout.bytes());
      layout.encode(values, bytes);
      layout.decode(bytes, values);
      return values;
    };
    for (const std::size_t padding : {1U, 2U, 9U, 300U}) {
      const std::vector<float> zeros = rounded(0, padding);
      EXPECT_EQ(rounded(1e9F, padding), zeros) << padding;
      EXPECT_EQ(rounded(std::numeric_limits<float>::quiet_NaN(), padding), zeros) << padding;
      EXPECT_EQ(rounded(0, 0), std::vector<float>(zeros.begin(), zeros.begin() + kOwn)) << padding;
    }
  }
}

TEST(BlockScaleTest, ASecondMomentAboveZeroStaysAbove) {
  const StateSegment segment{256, StateFormat::k8Bit};
  const MomentLayout layout(Moment::kSecond, {&segment, 1});
  std::vector<float> values(256, std::numeric_limits<float>::denorm_min());
  values[0] = 1e3F;  // a tiny one's share of it is no float
  values[1] = 0;
  std::vector<std::byte> bytes(layout.bytes());
  layout.encode(values, bytes);
  layout.decode(bytes, values);
  EXPECT_EQ(values[1], 0);
  EXPECT_GT(values[2], 0);
}

#if defined(__SSE2__)
TEST(BlockScaleTest, ASecondMomentStaysAboveZeroWhereDenormalNumbersAreFlushed) {
  const StateSegment segment{256, StateFormat::k8Bit};
  const MomentLayout layout(Moment::kSecond, {&segment, 1});
  std::vector<float> values(256, 1e-30F);
  values[0] = 1e10F;  // the others' share of it is denormal
  std::vector<std::byte> bytes(layout.bytes());
  const unsigned mode = _mm_getcsr();
  constexpr unsigned kFlushToZero = 0x8000;
  constexpr unsigned kDenormalsAreZero = 0x40;
  _mm_setcsr(mode | kFlushToZero | kDenormalsAreZero);
  layout.encode(values, bytes);
  layout.decode(bytes, values);
  _mm_setcsr(mode);
  EXPECT_EQ(std::ranges::count(values, 0), 0);
}
#endif

TEST(BlockScaleTest, TheLargestOfABlockIsExactWhateverItsSign) {
  for (const StateFormat format : {StateFormat::k8Bit, StateFormat::k4Bit}) {
    const StateSegment segment{128, format};
    const MomentLayout layout(Moment::kFirst, {&segment, 1});
    for (const float largest : {3.3F, -3.3F}) {
      std::vector<float> values(128, 0.01F);
      values[77] = largest;
      std::vector<std::byte> bytes(layout.bytes());
      layout.encode(values, bytes);
      layout.decode(bytes, values);
      EXPECT_EQ(values[77], largest);
    }
  }
}

}  // namespace
}  // namespace penstock
