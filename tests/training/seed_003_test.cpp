#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/training/training_fixture.h"
#include "tests/training/warning_matcher.h"

// The run that the project began with: Qwen3-0.6B under the user's own file.
namespace penstock {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kEmbedding = "model.embed_tokens.weight";

SwapPlan plan_seed(std::optional<std::uint64_t> ram, std::optional<std::uint64_t> pinned,
                   std::string_view rules = "[]") {
  Config config = load_config(test::data_path("seed-003.json")).value();
  config.penstock =
      parse_config(fmt::format(R"({{"penstock": {{"tensors": {}}}}})", rules), "rules")->penstock;
  config.penstock.ram_bytes = ram;
  config.penstock.max_pinned_bytes = pinned;
  return make_swap_plan(test::setup_with(test::data_inventory("qwen3-0.6b"), std::move(config)),
                        test::baseline_machine());
}

TEST(Seed003Test, StockDeepSpeedDiesAsTheUserReported) {
  const SwapPlan plan = plan_seed({}, {});
  EXPECT_EQ(plan.stock.error, "More elements 155582464 than buffer size 4194304");
  EXPECT_EQ(plan.stock.pinned_bytes, 3'355'443'200ULL);
  EXPECT_THAT(plan.warnings, Not(Contains(Says("Not enough buffers"))))
      << "200 buffers are enough for 197 parameters";
}

TEST(Seed003Test, ByDefaultAllOfItFitsIntoTheMemoryThatDeepSpeedWouldPin) {
  const SwapPlan plan = plan_seed({}, {});
  EXPECT_TRUE(plan.feasibility.feasible);
  test::expect_sound(plan.tensors, plan.placement);
  EXPECT_EQ(test::placed(plan, kEmbedding).place, Place::kRam);
  EXPECT_THAT(plan.placement.why_of(test::placed(plan, kEmbedding)),
              HasSubstr("larger than buffer_size"));
  EXPECT_EQ(plan.placement.ram_bytes, 2'383'937'536ULL) << "197 parameters of fp32";
  EXPECT_EQ(plan.placement.nvme_bytes, 0U);
  EXPECT_EQ(plan.traffic.read_bytes, 0U);
}

TEST(Seed003Test, WithNothingToKeepTheEmbeddingIsStreamed) {
  const SwapPlan plan = plan_seed(0, 64 * kMiB);
  EXPECT_TRUE(plan.feasibility.feasible);
  test::expect_sound(plan.tensors, plan.placement);
  EXPECT_EQ(test::placed(plan, kEmbedding).place, Place::kStream);
  ASSERT_EQ(plan.placement.classes.size(), 3U);
  EXPECT_EQ(plan.placement.classes[0].slot_bytes, 4 * kMiB);
  EXPECT_EQ(plan.placement.classes[1].slot_bytes, 8 * kMiB);
  EXPECT_EQ(plan.placement.classes[2].slot_bytes, 12 * kMiB);
  EXPECT_EQ(plan.placement.window_tensors, 7U) << "a whole layer";
  EXPECT_EQ(plan.placement.pinned_bytes, 64 * kMiB);
  EXPECT_EQ(plan.placement.nvme_bytes, 2'383'937'536ULL);
  EXPECT_EQ(plan.traffic.read_bytes, 2 * 2'383'937'536ULL)
      << "forward and backward, as long as the user does not say what is trained";
}

TEST(Seed003Test, ARuleKeepsTheEmbeddingAsTheUsersPatchDoes) {
  const SwapPlan plan =
      plan_seed(600 * kMiB, 64 * kMiB, R"([{"match": "*.embed_tokens.weight", "place": "ram"}])");
  EXPECT_TRUE(plan.feasibility.feasible);
  EXPECT_EQ(test::placed(plan, kEmbedding).place, Place::kRam);
  EXPECT_THAT(plan.placement.why_of(test::placed(plan, kEmbedding)), HasSubstr("rule"));
  EXPECT_GE(plan.placement.ram_bytes, 622'329'856U);
  EXPECT_LE(plan.placement.ram_bytes, 600 * kMiB);
}

TEST(Seed003Test, ARamThatIsTooSmallForTheRuleSaysHowMuchIsNeeded) {
  const SwapPlan plan =
      plan_seed(500 * kMiB, 64 * kMiB, R"([{"match": "*.embed_tokens.weight", "place": "ram"}])");
  EXPECT_FALSE(plan.feasibility.feasible);
  EXPECT_EQ(plan.feasibility.tensor, kEmbedding);
  EXPECT_EQ(test::smallest_value(plan.feasibility.reason), 622'329'856U);
  EXPECT_EQ(test::placed(plan, kEmbedding).place, Place::kRam) << "shown as it would be";
}

TEST(Seed003Test, NormsStayOnTheDeviceAsDeepSpeedHasIt) {
  const SwapPlan plan = plan_seed(0, 64 * kMiB);
  EXPECT_EQ(test::placed(plan, "model.norm.weight").place, Place::kDevice);
  std::size_t swapped = 0;
  for (const PlanTensor& tensor : plan.tensors) {
    swapped += tensor.swappable ? 1 : 0;
  }
  EXPECT_EQ(swapped, 197U);
}

// The patch of the baseline's third row, in the file's own words.
TEST(Seed003Test, OtherNumbersOfTheBaseline) {
  Config config = load_config(test::data_path("seed-003.json")).value();
  config.deepspeed.offload_param->buffer_count = 5;
  config.deepspeed.offload_param->buffer_size = 200'000'000;
  const SwapPlan plan = make_swap_plan(test::setup_with(test::data_inventory("qwen3-0.6b"), config),
                                       test::baseline_machine());
  EXPECT_FALSE(plan.stock.error.has_value());
  EXPECT_THAT(plan.warnings, Contains(Says("Not enough buffers 5 for swapping 197")));
  EXPECT_THAT(plan.warnings, Contains(Says("122598981632 bytes"))) << "122.6 GB";
}

TEST(Seed003Test, AnyNumbersPlan) {
  for (const std::uint64_t count : {1U, 5U, 200U}) {
    for (const std::uint64_t size : {100'000U, 4'194'304U, 200'000'000U}) {
      for (const std::uint64_t bucket : {0U, 50'000'000U}) {
        SCOPED_TRACE(fmt::format("{} x {}, bucket {}", count, size, bucket));
        Config config = load_config(test::data_path("seed-003.json")).value();
        config.deepspeed.offload_param->buffer_count = count;
        config.deepspeed.offload_param->buffer_size = size;
        config.deepspeed.stage3_prefetch_bucket_size = bucket;
        config.penstock.ram_bytes = 0;
        config.penstock.max_pinned_bytes = 64 * kMiB;
        const SwapPlan plan = make_swap_plan(
            test::setup_with(test::data_inventory("qwen3-0.6b"), config), test::baseline_machine());
        EXPECT_TRUE(plan.feasibility.feasible);
        test::expect_sound(plan.tensors, plan.placement);
        EXPECT_EQ(plan.stock.error.has_value(), size < 155'582'464);
        EXPECT_EQ(plan.placement.classes.size(), 3U);
      }
    }
  }
}

}  // namespace
}  // namespace penstock
