#include "swap/plan/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/plan_fixture.h"

namespace penstock {
namespace {

using test::expect_sound;
using test::smallest_value;
using testing::AllOf;
using testing::HasSubstr;

PlanTensor tensor(std::string name, std::uint64_t bytes, std::uint32_t writes = 0) {
  PlanTensor tensor;
  tensor.name = std::move(name);
  tensor.bytes = bytes;
  tensor.writes_per_step = writes;
  return tensor;
}

std::vector<PlanTensor> many(std::size_t count, std::uint64_t bytes) {
  std::vector<PlanTensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    tensors.push_back(tensor(fmt::format("t{}", i), bytes));
  }
  return tensors;
}

// A Qwen3-like model: an embedding, then layers of small and larger matrices.
std::vector<PlanTensor> model(std::uint64_t embedding_bytes) {
  std::vector<PlanTensor> tensors{tensor("model.embed_tokens.weight", embedding_bytes)};
  for (int layer = 0; layer < 8; ++layer) {
    for (const auto& [name, bytes] : {std::pair{"q", 8 * kMiB}, std::pair{"k", 4 * kMiB},
                                      std::pair{"v", 4 * kMiB}, std::pair{"up", 12 * kMiB}}) {
      tensors.push_back(tensor(fmt::format("model.layers.{}.{}", layer, name), bytes));
    }
  }
  return tensors;
}

Budgets given(std::uint64_t max_pinned, std::uint64_t ram) {
  Budgets budgets;
  budgets.max_pinned_bytes = max_pinned;
  budgets.ram_bytes = ram;
  budgets.max_pinned_given = true;
  budgets.ram_given = true;
  budgets.quarter_bytes = 4 * kGiB;
  return budgets;
}

TensorRule rule(const std::string& match, Place place) {
  return {match,
          {},
          {},
          place,
          fmt::format(R"({{"match":"{}","place":"{}"}})", match, place_name(place))};
}

EngineConfig rules(std::vector<TensorRule> tensors) {
  EngineConfig config;
  config.tensors = std::move(tensors);
  return config;
}

EngineConfig outliers_above(std::uint64_t bytes) {
  EngineConfig config;
  config.outliers = {bytes, "buffer_size"};
  return config;
}

Placement place(const std::vector<PlanTensor>& tensors, const Budgets& budgets,
                const EngineConfig& config = {}) {
  Result<Placement> placement = place_tensors(tensors, config, budgets);
  EXPECT_TRUE(placement.has_value()) << placement.error().message;
  expect_sound(tensors, *placement);
  return std::move(*placement);
}

TEST(PlacementTest, NothingNeedsNothing) {
  const Placement placement = place({}, given(0, 0));
  EXPECT_EQ(placement.pinned_bytes, 0U);
  EXPECT_TRUE(placement.pool().empty());
}

TEST(PlacementTest, RegularTensorsShareTheSlotsOfTheirClass) {
  const Placement placement = place(model(12 * kMiB), given(64 * kMiB, 0));
  ASSERT_EQ(placement.classes.size(), 3U);
  EXPECT_EQ(placement.classes[0].slot_bytes, 4 * kMiB);
  EXPECT_EQ(placement.classes[2].tensors, 9U) << "the embedding is as large as an up matrix here";
  for (const PlacedClass& group : placement.classes) {
    EXPECT_GE(group.slots, 2U);
    EXPECT_EQ(group.waste_bytes, 0U);
  }
  EXPECT_GE(placement.window_tensors, 4U);
  EXPECT_EQ(placement.staging_bytes, 4 * kMiB);
  EXPECT_EQ(placement.pool()[1], (ClassPlan{8 * kMiB, placement.classes[1].slots}));
}

TEST(PlacementTest, AnOutlierStaysInRamIfItFits) {
  const Placement placement = place(model(600 * kMiB), given(64 * kMiB, 600 * kMiB));
  EXPECT_EQ(placement.tensors[0].place, Place::kRam);
  EXPECT_THAT(placement.why_of(placement.tensors[0]), HasSubstr("more than four times as large"));
  EXPECT_EQ(placement.ram_bytes, 600 * kMiB);
}

TEST(PlacementTest, ElseItHasABufferOfItsOwnBesideTheClasses) {
  const Placement placement = place(model(100 * kMiB), given(128 * kMiB, 0));
  EXPECT_EQ(placement.tensors[0].place, Place::kDedicated);
  // One slot of each class, staging and the embedding: 24 + 4 + 100 MiB are all there is.
  EXPECT_EQ(placement.pinned_bytes, 128 * kMiB);
  EXPECT_EQ(placement.classes[2].slots, 1U);
}

TEST(PlacementTest, ElseItIsStreamed) {
  const Placement placement = place(model(100 * kMiB), given(128 * kMiB - kBlockBytes, 0));
  EXPECT_EQ(placement.tensors[0].place, Place::kStream);
  EXPECT_GE(placement.classes[2].slots, 2U) << "what it would have taken goes to the others";
}

TEST(PlacementTest, LargerThanTheLimitIsAnOutlierWhateverTheOthersAre) {
  const Placement placement =
      place(model(24 * kMiB), given(64 * kMiB, 0), outliers_above(12 * kMiB));
  EXPECT_EQ(placement.tensors[0].place, Place::kDedicated);
  EXPECT_THAT(placement.why_of(placement.tensors[0]),
              HasSubstr("larger than buffer_size (12582912 bytes)"));
}

TEST(PlacementTest, ABufferSizeThatHoldsNothingIsNoReasonToPinNothing) {
  // 1e5 elements of 2 bytes: every tensor is larger, and most sizes repeat.
  const Placement placement =
      place(model(600 * kMiB), given(64 * kMiB, 0), outliers_above(200'000));
  EXPECT_EQ(placement.classes.size(), 3U);
  EXPECT_EQ(placement.tensors[0].place, Place::kStream);
  EXPECT_THAT(placement.why_of(placement.tensors[1]), HasSubstr("larger than buffer_size"));
}

TEST(PlacementTest, WhatSharesNoSlotIsStreamed) {
  const Placement placement = place(model(12 * kMiB), given(17 * kMiB, 0));
  // 13 MiB beside the staging: 4 and 8 MiB get a slot each, 12 MiB none.
  ASSERT_EQ(placement.classes.size(), 2U);
  EXPECT_EQ(placement.tensors[0].place, Place::kStream);
  EXPECT_EQ(placement.tensors[1].place, Place::kClass);
}

TEST(PlacementTest, SmallestPinnedBudgetStreamsEverything) {
  const std::vector<PlanTensor> tensors = model(600 * kMiB);
  const Placement placement = place(tensors, given(4 * kMiB, 0));
  for (const PlacedTensor& placed : placement.tensors) {
    EXPECT_EQ(placed.place, Place::kStream);
  }
  const Result<Placement> refused = place_tensors(tensors, {}, given(4 * kMiB - 1, 0));
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().code, Fault::kExhausted);
  EXPECT_EQ(refused.error().tensor, "model.embed_tokens.weight");
  EXPECT_EQ(smallest_value(refused.error().message), 4 * kMiB);
}

TEST(PlacementTest, WithEverythingInRamNothingIsPinned) {
  const Placement placement = place(model(600 * kMiB), given(0, 4 * kGiB));
  EXPECT_EQ(placement.pinned_bytes, 0U);
  EXPECT_EQ(placement.nvme_bytes, 0U);
}

TEST(PlacementTest, WrittenTensorsAreKeptFirst) {
  std::vector<PlanTensor> tensors = many(4, 4 * kMiB);
  tensors[2].writes_per_step = 1;
  const Placement placement = place(tensors, given(64 * kMiB, 8 * kMiB));
  EXPECT_EQ(placement.tensors[0].place, Place::kRam);
  EXPECT_EQ(placement.tensors[1].place, Place::kClass);
  EXPECT_EQ(placement.tensors[2].place, Place::kRam);
}

TEST(PlacementTest, WhatIsNotSwappedStaysOutsideOfAllBudgets) {
  std::vector<PlanTensor> tensors = many(3, 4 * kMiB);
  tensors[0].swappable = false;
  tensors[1].swappable = false;
  tensors[1].place_unswapped = Place::kDevice;
  tensors[1].why_unswapped = std::make_shared<const std::string>("persistent");
  tensors[2].bytes = 0;
  const Placement placement = place(tensors, given(0, 0));
  EXPECT_EQ(placement.tensors[0].place, Place::kRam);
  EXPECT_EQ(placement.tensors[1].place, Place::kDevice);
  EXPECT_EQ(placement.why_of(placement.tensors[1]), "persistent");
  EXPECT_EQ(placement.tensors[2].place, Place::kRam);
  EXPECT_EQ(placement.ram_bytes, 0U);
}

TEST(PlacementRuleTest, TheFirstThatMatchesWins) {
  const std::vector<PlanTensor> tensors = model(600 * kMiB);
  const EngineConfig config = rules({rule("*.embed_tokens.weight", Place::kDevice),
                                     rule("*.up", Place::kStream),
                                     {"", 8 * kMiB, {}, Place::kRam, "as written"}});
  Budgets budgets = given(64 * kMiB, 0);
  budgets.ram_given = false;
  const Placement placement = place(tensors, budgets, config);
  EXPECT_EQ(placement.tensors[0].place, Place::kDevice);
  EXPECT_EQ(placement.tensors[4].place, Place::kStream);
  EXPECT_EQ(placement.tensors[1].place, Place::kRam) << "8 MiB";
  EXPECT_EQ(placement.tensors[2].place, Place::kClass) << "4 MiB";
  EXPECT_THAT(placement.why_of(placement.tensors[1]), HasSubstr("rule as written"));
  EXPECT_EQ(placement.budgets.ram_bytes, 8 * 8 * kMiB) << "raised: it was not given";
}

TEST(PlacementRuleTest, RamThatIsGivenAndTooSmallIsAnError) {
  const std::vector<PlanTensor> tensors = model(600 * kMiB);
  const EngineConfig config =
      rules({rule("*.embed_tokens.weight", Place::kRam), rule("*.up", Place::kRam)});
  const Result<Placement> refused = place_tensors(tensors, config, given(64 * kMiB, 610 * kMiB));
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().tensor, "model.layers.0.up") << "600 MiB fit, 12 more do not";
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr(R"({"match":"*.up","place":"ram"})"),
                                             HasSubstr("ram_bytes of 639631360")));
  const std::uint64_t smallest = smallest_value(refused.error().message);
  EXPECT_EQ(smallest, 696 * kMiB);
  place(tensors, given(64 * kMiB, smallest), config);
  EXPECT_TRUE(place_tensors(tensors, config, given(64 * kMiB, smallest - 1)).has_error());
}

TEST(PlacementRuleTest, PinnedMemoryThatIsGivenAndTooSmallIsAnError) {
  const std::vector<PlanTensor> tensors = model(600 * kMiB);
  const EngineConfig config =
      rules({rule("*.layers.0.*", Place::kDedicated), rule("*.embed_tokens.weight", Place::kClass),
             rule("*.up", Place::kClass)});
  const Result<Placement> refused = place_tensors(tensors, config, given(64 * kMiB, 0));
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().tensor, "model.embed_tokens.weight");
  // 28 MiB dedicated, slots of 600 and 12 MiB, and the staging.
  const std::uint64_t smallest = smallest_value(refused.error().message);
  EXPECT_EQ(smallest, (28 + 600 + 12 + 4) * kMiB);
  const Placement placement = place(tensors, given(smallest, 0), config);
  EXPECT_EQ(placement.tensors[0].place, Place::kClass);
  EXPECT_EQ(placement.tensors[4].place, Place::kDedicated);
  EXPECT_EQ(placement.tensors[8].place, Place::kClass);
  EXPECT_TRUE(place_tensors(tensors, config, given(smallest - kBlockBytes, 0)).has_error());
}

TEST(PlacementRuleTest, PinnedMemoryThatIsNotGivenIsRaisedToTheQuarter) {
  const EngineConfig config = rules({rule("*.embed_tokens.weight", Place::kDedicated)});
  Budgets budgets = given(64 * kMiB, 0);
  budgets.max_pinned_given = false;
  const Placement placement = place(model(600 * kMiB), budgets, config);
  EXPECT_EQ(placement.budgets.max_pinned_bytes, 604 * kMiB);
  budgets.quarter_bytes = 603 * kMiB;
  const Result<Placement> refused = place_tensors(model(600 * kMiB), config, budgets);
  ASSERT_TRUE(refused.has_error());
  EXPECT_THAT(refused.error().message, HasSubstr("a quarter of the free memory"));
}

TEST(PlacementRuleTest, RulesDoNotMoveWhatIsNotSwapped) {
  std::vector<PlanTensor> tensors = many(1, 100);
  tensors[0].swappable = false;
  const Placement placement = place(tensors, given(0, 0), rules({rule("*", Place::kDedicated)}));
  EXPECT_EQ(placement.tensors[0].place, Place::kRam);
}

TEST(PlacementTest, ListedSizeClassesAreUsed) {
  EngineConfig config;
  config.size_classes = {9 * kMiB};
  const std::vector<PlanTensor> tensors = model(600 * kMiB);
  const Placement placement = place_tensors(tensors, config, given(64 * kMiB, 0)).value();
  bool has_listed = false;
  for (const PlacedClass& group : placement.classes) {
    has_listed = has_listed || (group.slot_bytes == 9 * kMiB && group.tensors == 8 &&
                                group.waste_bytes == group.slots * kMiB);
  }
  EXPECT_TRUE(has_listed) << "8 MiB in slots of 9";
  EXPECT_LE(placement.pinned_bytes, 64 * kMiB);
}

TEST(LargestRegularSlotTest, LeavesOutliersOut) {
  EXPECT_EQ(largest_regular_slot_bytes(model(600 * kMiB), {}), 12 * kMiB);
  EXPECT_EQ(largest_regular_slot_bytes(model(24 * kMiB), {}), 24 * kMiB);
  EXPECT_EQ(largest_regular_slot_bytes(model(24 * kMiB), outliers_above(12 * kMiB)), 12 * kMiB);
  EXPECT_EQ(largest_regular_slot_bytes(model(24 * kMiB), rules({rule("*.embed*", Place::kRam)})),
            12 * kMiB);
  EXPECT_EQ(largest_regular_slot_bytes(model(600 * kMiB), rules({rule("*.embed*", Place::kClass)})),
            600 * kMiB);
  EXPECT_EQ(largest_regular_slot_bytes({}, {}), 0U);
}

}  // namespace
}  // namespace penstock
