#include "bench/workload/swap/optimizer_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "alloc/bytes.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

constexpr std::size_t kElements = 300'000;
constexpr std::size_t kChunks = 5;

class OptimizerStepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SwapEngineOptions options;
    options.config.max_pinned_bytes = 8 * kMiB;
    options.config.ram_bytes = 0;
    engine_ = std::move(SwapEngine::open(std::move(options))).value();
    space_ = engine_->open_namespace("optimizer", {{directory_.path(), {}, {}}}).value();
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      master_.emplace_back(kElements, 0.5F * static_cast<float>(chunk + 1));
      chunks_.push_back({declare("master", master_.back()), declare("exp_avg", zeros_),
                         declare("exp_avg_sq", zeros_)});
    }
  }

  TensorId declare(const std::string& state, const std::vector<float>& content) {
    const std::string name = state + std::to_string(chunks_.size());
    const TensorId tensor =
        engine_->declare(space_, {name, DType::kF32, {content.size()}, Role::kMaster}).value();
    EXPECT_TRUE(engine_->put(tensor, std::as_bytes(std::span(content))).wait().has_value());
    return tensor;
  }

  std::span<const float> gradient(std::size_t chunk) {
    std::ranges::fill(gradient_, 0.01F * static_cast<float>(chunk) - 0.02F);
    return gradient_;
  }

  TempDirectory directory_;
  std::unique_ptr<SwapEngine> engine_;
  NamespaceId space_{};
  std::vector<std::vector<float>> master_;
  std::vector<float> zeros_ = std::vector<float>(kElements);
  std::vector<float> gradient_ = std::vector<float>(kElements);
  std::vector<StateChunk> chunks_;
};

TEST_F(OptimizerStepTest, IsTheStepInMemory) {
  OptimizerStep optimizer(*engine_, {});
  for (std::uint64_t step = 1; step <= 3; ++step) {
    std::size_t seen = 0;
    const Result<void> done = optimizer.run(
        chunks_, step, [this](std::size_t chunk) { return gradient(chunk); },
        [&seen](std::size_t chunk, const AdamWState&) { EXPECT_EQ(chunk, seen++); });
    ASSERT_TRUE(done.has_value()) << done.error().message;
    EXPECT_EQ(seen, kChunks);
  }
  ASSERT_TRUE(engine_->flush().has_value());
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    std::vector<float> exp_avg = zeros_;
    std::vector<float> exp_avg_sq = zeros_;
    for (std::uint64_t step = 1; step <= 3; ++step) {
      AdamW({}).update({master_[chunk], exp_avg, exp_avg_sq, gradient(chunk)}, step);
    }
    const Result<Lease> lease = engine_->get(chunks_[chunk].master).lease();
    ASSERT_TRUE(lease.has_value()) << lease.error().message;
    EXPECT_EQ(std::memcmp(lease->data(), master_[chunk].data(), lease->bytes()), 0) << chunk;
  }
  EXPECT_EQ(engine_->stats().commits, 3 * 3 * kChunks);
}

TEST_F(OptimizerStepTest, SaysWhichChunkDoesNotFit) {
  OptimizerStep optimizer(*engine_, {});
  const Result<void> done = optimizer.run(chunks_, 1, [this](std::size_t chunk) {
    return gradient(chunk).first(chunk == 2 ? 7 : kElements);
  });
  ASSERT_TRUE(done.has_error());
  EXPECT_NE(done.error().message.find("chunk 2"), std::string::npos) << done.error().message;
  EXPECT_EQ(engine_->stats().commits, 3U * 2);
}

TEST_F(OptimizerStepTest, OfNothingIsNothing) {
  OptimizerStep optimizer(*engine_, {});
  EXPECT_TRUE(optimizer.run({}, 1, {}).has_value());
}

}  // namespace
}  // namespace penstock
