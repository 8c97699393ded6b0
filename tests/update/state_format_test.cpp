#include "swap/update/state_format.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(StateFormatTest, BytesOfBlocksWithTheirScales) {
  EXPECT_EQ(state_bytes(StateFormat::kF32, 1000), 4000U);
  EXPECT_EQ(state_bytes(StateFormat::kBF16, 1000), 2000U);
  EXPECT_EQ(state_bytes(StateFormat::kBF16, 3), 8U);
  EXPECT_EQ(state_bytes(StateFormat::k8Bit, 256), 260U);
  EXPECT_EQ(state_bytes(StateFormat::k8Bit, 257), 260U + 8U);
  EXPECT_EQ(state_bytes(StateFormat::k4Bit, 128), 68U);
  EXPECT_EQ(state_bytes(StateFormat::k4Bit, 129), 68U + 8U);
  for (std::size_t i = 0; i < kStateFormatNames.size(); ++i) {
    EXPECT_EQ(state_bytes(static_cast<StateFormat>(i), 0), 0U);
  }
}

TEST(StateFormatTest, SmallAndExemptParametersKeepFp32) {
  const StateFormats formats{StateFormat::k8Bit, {"*embed*", "lm_head.weight"}};
  EXPECT_EQ(formats.of("model.layers.0.weight", 4096), StateFormat::k8Bit);
  EXPECT_EQ(formats.of("model.layers.0.weight", 4095), StateFormat::kF32);
  EXPECT_EQ(formats.of("model.embed_tokens.weight", 1 << 20), StateFormat::kF32);
  EXPECT_EQ(formats.of("lm_head.weight", 1 << 20), StateFormat::kF32);
  EXPECT_EQ(StateFormats().of("model.layers.0.weight", 1 << 20), StateFormat::kF32);
}

TEST(StateFormatTest, CutsAtEqualElementsAndJoinsOnlyFp32) {
  const std::vector<StateSegment> segments{{5, StateFormat::kF32},
                                           {0, StateFormat::k8Bit},
                                           {4, StateFormat::kF32},
                                           {8, StateFormat::k8Bit},
                                           {8, StateFormat::k8Bit}};
  const auto chunks = cut_segments(segments, 10);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks[0],
            (std::vector<StateSegment>{{9, StateFormat::kF32}, {1, StateFormat::k8Bit}}));
  EXPECT_EQ(chunks[1],
            (std::vector<StateSegment>{{7, StateFormat::k8Bit}, {3, StateFormat::k8Bit}}));
  EXPECT_EQ(chunks[2], (std::vector<StateSegment>{{5, StateFormat::k8Bit}}));
  EXPECT_EQ(state_bytes(chunks[1]), 12U + 8U);
  EXPECT_TRUE(cut_segments({}, 10).empty());
}

TEST(StateFormatTest, PaddingStaysBehindTheElementsOfItsParameter) {
  const std::vector<StateSegment> segments{{12, StateFormat::k8Bit, 5}, {9, StateFormat::k8Bit, 0}};
  const auto chunks = cut_segments(segments, 5);
  ASSERT_EQ(chunks.size(), 5U);
  EXPECT_EQ(chunks[0], (std::vector<StateSegment>{{5, StateFormat::k8Bit, 0}}));
  EXPECT_EQ(chunks[1], (std::vector<StateSegment>{{5, StateFormat::k8Bit, 3}}));
  EXPECT_EQ(chunks[2],
            (std::vector<StateSegment>{{2, StateFormat::k8Bit, 2}, {3, StateFormat::k8Bit, 0}}));
}

}  // namespace
}  // namespace penstock
