#include "swap/update/streamed_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "alloc/bytes.h"
#include "swap/update/adam.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

constexpr std::size_t kElements = 300'000;
constexpr std::size_t kChunks = 5;

class StreamedStepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SwapEngineOptions options;
    options.config.max_pinned_bytes = 8 * kMiB;
    options.config.ram_bytes = 0;
    engine_ = std::move(SwapEngine::open(std::move(options))).value();
    space_ = engine_->open_namespace("optimizer", {{directory_.path(), {}, {}}}).value();
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      std::vector<float>& states = expected_.emplace_back(3 * kElements);
      std::fill_n(states.begin(), kElements, 0.5F * static_cast<float>(chunk + 1));
      chunks_.push_back({declare(states), kElements});
    }
  }

  TensorId declare(const std::vector<float>& content) {
    const std::string name = "states " + std::to_string(chunks_.size());
    const TensorId tensor =
        engine_->declare(space_, {name, DType::kF32, {content.size()}, Role::kMaster}).value();
    EXPECT_TRUE(engine_->put(tensor, std::as_bytes(std::span(content))).wait().has_value());
    return tensor;
  }

  AdamState state(std::span<float> states, std::size_t chunk) {
    std::ranges::fill(gradient_, 0.01F * static_cast<float>(chunk) - 0.02F);
    return {states.first(kElements), states.subspan(kElements, kElements),
            states.subspan(2 * kElements), gradient_};
  }

  void expect_contents() {
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      const Result<Lease> lease = engine_->get(chunks_[chunk].tensor).lease();
      ASSERT_TRUE(lease.has_value()) << lease.error().message;
      ASSERT_EQ(lease->bytes(), expected_[chunk].size() * sizeof(float));
      EXPECT_EQ(std::memcmp(lease->data(), expected_[chunk].data(), lease->bytes()), 0) << chunk;
    }
  }

  TempDirectory directory_;
  std::unique_ptr<SwapEngine> engine_;
  NamespaceId space_{};
  std::vector<std::vector<float>> expected_;  // by chunk
  std::vector<float> gradient_ = std::vector<float>(kElements);
  std::vector<StateChunk> chunks_;
};

TEST_F(StreamedStepTest, IsTheStepInMemory) {
  Adam adam;
  for (std::uint64_t number = 1; number <= 3; ++number) {
    const AdamStep step = adam.step(number, {});
    std::size_t seen = 0;
    const Result<void> done = StreamedStep(*engine_).run(
        chunks_, [&](std::size_t chunk, std::span<float> states) -> Result<void> {
          EXPECT_EQ(chunk, seen++);
          step.update(state(states, chunk));
          return {};
        });
    ASSERT_TRUE(done.has_value()) << done.error().message;
    EXPECT_EQ(seen, kChunks);
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      step.update(state(expected_[chunk], chunk));
    }
  }
  ASSERT_TRUE(engine_->flush().has_value());
  expect_contents();
  EXPECT_EQ(engine_->stats().commits, 3 * kChunks);
}

TEST_F(StreamedStepTest, AChunkThatFailsAndThoseBehindKeepTheirContents) {
  const AdamStep step = Adam().step(1, {});
  const Result<void> done = StreamedStep(*engine_).run(
      chunks_, [&](std::size_t chunk, std::span<float> states) -> Result<void> {
        step.update(state(states, chunk));
        if (chunk == 2) {
          return fault(Fault::kInvalidArgument, "no gradient");
        }
        return {};
      });
  ASSERT_TRUE(done.has_error());
  EXPECT_EQ(done.error().message, "no gradient");
  for (std::size_t chunk = 0; chunk < 2; ++chunk) {
    step.update(state(expected_[chunk], chunk));
  }
  expect_contents();
}

TEST_F(StreamedStepTest, AReadThatFailsIsTheStepsError) {
  chunks_[3].tensor = engine_->declare(space_, {"none", DType::kF32, {3}, Role::kMaster}).value();
  std::size_t updated = 0;
  const Result<void> done =
      StreamedStep(*engine_).run(chunks_, [&](std::size_t, std::span<float>) -> Result<void> {
        ++updated;
        return {};
      });
  ASSERT_TRUE(done.has_error());
  EXPECT_NE(done.error().message.find("'none' has no content"), std::string::npos)
      << done.error().message;
  EXPECT_EQ(updated, 3U);
}

TEST_F(StreamedStepTest, OfNothingIsNothing) {
  EXPECT_TRUE(StreamedStep(*engine_).run({}, {}).has_value());
}

}  // namespace
}  // namespace penstock
