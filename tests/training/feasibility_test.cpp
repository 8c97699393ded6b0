#include "bindings/deepspeed/feasibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/training/training_fixture.h"
#include "tests/training/warning_matcher.h"

namespace penstock {
namespace {

using test::smallest_value;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TrainingSetup small_model(const char* paths, const char* optimizer_device = "cpu") {
  return test::setup_with(test::data_inventory("qwen3-0.6b"),
                          fmt::format(R"({{"bf16": {{"enabled": true}}, "zero_optimization": {{
      "stage": 3, "sub_group_size": 2e7,
      "offload_param": {{"device": "nvme", "nvme_path": "/n", "max_in_cpu": 0}},
      "offload_optimizer": {{"device": "{}", "nvme_path": "/n"}}}},
      "penstock": {{"ram_bytes": 0, "max_pinned_bytes": "64MiB", "paths": {}}}}})",
                                      optimizer_device, paths));
}

SwapPlan plan(const TrainingSetup& setup) {
  return make_swap_plan(setup, test::baseline_machine());
}

TEST(FeasibilityTest, WithoutStatedLimitsTheDrivesHaveRoom) {
  EXPECT_TRUE(plan(small_model("[]")).feasibility.feasible);
  EXPECT_TRUE(plan(small_model(R"([{"path": "/n"}])")).feasibility.feasible);
  EXPECT_TRUE(plan(small_model(R"([{"path": "/n", "max_bytes": 4096}, {"path": "/m"}])"))
                  .feasibility.feasible)
      << "one path without a limit is enough";
}

// Whether a limit is enough however slow the drives are.
bool is_enough(const TrainingSetup& setup) {
  const SwapPlan planned = plan(setup);
  const bool warns = std::ranges::any_of(
      planned.warnings, [](const PlanWarning& each) { return each.code == "drive-limit"; });
  return planned.feasibility.feasible && !warns;
}

TEST(FeasibilityTest, TheSmallestLimitOfADriveWorksInAnyCaseAndOneBlockLessDoesNot) {
  for (const char* optimizer : {"cpu", "nvme"}) {
    TrainingSetup setup = small_model(R"([{"path": "/n", "max_bytes": "1GiB"}])", optimizer);
    const SwapPlan refused = plan(setup);
    EXPECT_FALSE(refused.feasibility.feasible);
    EXPECT_THAT(refused.feasibility.reason, HasSubstr("max_bytes of 1073741824 for /n"));
    EXPECT_THAT(refused.feasibility.tensor, Not(IsEmpty()));
    const std::uint64_t smallest = smallest_value(refused.feasibility.reason);
    EXPECT_GT(smallest, refused.drives.behind_bytes);
    setup.config.penstock.paths[0].max_bytes = smallest;
    EXPECT_TRUE(is_enough(setup));
    setup.config.penstock.paths[0].max_bytes = smallest - kBlockBytes;
    EXPECT_FALSE(is_enough(setup));
  }
}

TEST(FeasibilityTest, ALimitThatIsEnoughForDrivesThatKeepUpIsAWarning) {
  TrainingSetup setup = small_model(R"([{"path": "/n", "max_bytes": "1GiB"}])", "nvme");
  const std::string reason = plan(setup).feasibility.reason;
  const std::string_view before = "is too small; drives that keep up need ";
  const std::uint64_t least = std::stoull(reason.substr(reason.find(before) + before.size()));
  EXPECT_GT(least, 12 * setup.inventory.elements()) << "the states, and some new contents";
  EXPECT_LT(least, 13 * setup.inventory.elements());
  setup.config.penstock.paths[0].max_bytes = least - kBlockBytes;
  EXPECT_FALSE(plan(setup).feasibility.feasible);
  setup.config.penstock.paths[0].max_bytes = least;
  EXPECT_TRUE(plan(setup).fits());
  EXPECT_THAT(plan(setup).warnings, Contains(Warns("drive-limit", "penstock.paths")));
  setup.config.penstock.paths[0].max_bytes = std::nullopt;
  EXPECT_TRUE(is_enough(setup));
}

TEST(FeasibilityTest, SeveralDrivesAddUpButATensorLiesWholeOnOne) {
  TrainingSetup setup = small_model(
      R"([{"path": "/a", "max_bytes": "600MiB"}, {"path": "/b", "max_bytes": "600MiB"}])");
  const SwapPlan refused = plan(setup);
  EXPECT_FALSE(refused.feasibility.feasible);
  EXPECT_THAT(refused.feasibility.reason, HasSubstr("the sum of max_bytes"));
  const std::uint64_t smallest = smallest_value(refused.feasibility.reason);
  setup.config.penstock.paths[0].max_bytes = smallest - 700 * kMiB;
  setup.config.penstock.paths[1].max_bytes = 700 * kMiB;
  EXPECT_TRUE(is_enough(setup));
  setup.config.penstock.paths[1].max_bytes = 700 * kMiB - kBlockBytes;
  EXPECT_FALSE(is_enough(setup));
}

TEST(FeasibilityTest, TheSmallestLimitIsOfWholeBlocksWhereTheTensorsAreNot) {
  for (const char* paths :
       {R"([{"path": "/a", "max_bytes": "50MiB"}])",
        R"([{"path": "/a", "max_bytes": 0}, {"path": "/b", "max_bytes": 0}])"}) {
    TrainingSetup setup = small_model(paths);
    setup.world_size = 3;
    const SwapPlan refused = plan(setup);
    ASSERT_FALSE(refused.feasibility.feasible);
    const std::uint64_t smallest = smallest_value(refused.feasibility.reason);
    std::uint64_t& limit = *setup.config.penstock.paths[0].max_bytes;
    limit = smallest;
    EXPECT_TRUE(is_enough(setup)) << refused.feasibility.reason;
    limit = smallest - 1;
    EXPECT_FALSE(is_enough(setup)) << refused.feasibility.reason;
  }
}

std::uint64_t drive_bytes(const SwapPlan& planned) {
  return drive_needs_by_path(planned.setup, planned.tensors, planned.drives).front().bytes;
}

TEST(FeasibilityTest, WhatIsNeverWrittenNeedsNoSpareSpace) {
  TrainingSetup setup = test::setup_without_config(test::data_inventory("qwen3-0.6b"));
  setup.config.penstock.ram_bytes = 0;
  setup.optimizer = OptimizerKind::kNone;
  const SwapPlan still = plan(setup);
  // Each with a block that identifies it.
  EXPECT_EQ(drive_bytes(still),
            still.placement.nvme_bytes + still.drives.tensors.size() * kBlockBytes);
  EXPECT_GT(still.drives.tensors.size(), 190U);
}

TEST(FeasibilityTest, LoadingACheckpointWritesEveryParameterOnceMore) {
  TrainingSetup frozen = small_model("[]");
  frozen.optimizer = OptimizerKind::kNone;
  const SwapPlan planned = plan(frozen);
  EXPECT_GE(drive_bytes(planned), planned.placement.nvme_bytes + planned.drives.behind_bytes);
  EXPECT_GE(planned.drives.behind_bytes, planned.placement.pinned_bytes + kWriteBackSlackBytes);
}

TEST(FeasibilityTest, NoMoreIsOnItsWayThanThereIs) {
  TrainingSetup setup = small_model("[]");
  setup.inventory.tensors.resize(3);
  const SwapPlan planned = plan(setup);
  EXPECT_GE(drive_bytes(planned), 2 * planned.placement.nvme_bytes);
  EXPECT_LT(drive_bytes(planned), 3 * planned.placement.nvme_bytes);
}

TEST(FeasibilityTest, EveryParameterIsBuiltOnTheDrives) {
  const std::uint64_t all = plan(small_model("[]")).placement.nvme_bytes;
  TrainingSetup on_device = small_model("[]");
  on_device.config.penstock.tensors.push_back({"*", {}, {}, Place::kDevice, "*"});
  TrainingSetup in_cpu = small_model("[]");
  in_cpu.trained_is_given = true;
  in_cpu.config.deepspeed.offload_param->max_in_cpu = 10'000'000'000;
  for (const TrainingSetup& setup : {on_device, in_cpu}) {
    const SwapPlan planned = plan(setup);
    EXPECT_EQ(planned.placement.nvme_bytes, 0U);
    EXPECT_GT(drive_bytes(planned), all);
    TrainingSetup limited = setup;
    limited.config.penstock.paths.push_back({"/n", {}, kMiB});
    EXPECT_FALSE(plan(limited).fits());
  }
}

TEST(FeasibilityTest, WhatRamHasRoomForIsBuiltThere) {
  TrainingSetup setup = small_model(R"([{"path": "/n", "max_bytes": "1MiB"}])");
  setup.config.penstock.ram_bytes = 4 * kGiB;
  EXPECT_EQ(drive_bytes(plan(setup)), 0U);
  EXPECT_TRUE(plan(setup).feasibility.feasible);
}

TEST(FeasibilityTest, ThePinnedBudgetMustHoldTheStaging) {
  TrainingSetup setup = small_model("[]");
  setup.config.penstock.max_pinned_bytes = kMiB;
  const SwapPlan refused = plan(setup);
  EXPECT_FALSE(refused.feasibility.feasible);
  EXPECT_EQ(refused.feasibility.tensor, "model.embed_tokens.weight");
  const std::uint64_t smallest = smallest_value(refused.feasibility.reason);
  setup.config.penstock.max_pinned_bytes = smallest;
  EXPECT_TRUE(plan(setup).feasibility.feasible);
  setup.config.penstock.max_pinned_bytes = smallest - kBlockBytes;
  EXPECT_FALSE(plan(setup).feasibility.feasible);
}

TEST(MachineFitTest, WhatDoesNotFitHereIsAWarning) {
  MachineFacts machine = test::baseline_machine();
  machine.memlock_bytes = 8 * kMiB;
  machine.paths.push_back({"/n", false, 100 * kMiB, ""});
  machine.paths.push_back({"/m", true, 0, "/m: Permission denied"});
  const SwapPlan plan = make_swap_plan(small_model("[]"), machine);
  EXPECT_TRUE(plan.feasibility.feasible);
  EXPECT_THAT(plan.warnings, Contains(Says("/n is not there on this machine")));
  EXPECT_THAT(plan.warnings, Contains(Says("/m cannot be used: /m: Permission denied")));
  EXPECT_THAT(plan.warnings, Contains(Says("free")));
  EXPECT_THAT(plan.warnings, Contains(Says("ulimit -l")));
  EXPECT_THAT(plan.misfit()->code, "path-unusable") << "and it is why the run does not fit";
  EXPECT_FALSE(plan.fits());
  machine.mem_available_bytes = kGiB;
  machine.paths.clear();
  const SwapPlan short_of_memory = make_swap_plan(small_model("[]"), machine);
  ASSERT_NE(short_of_memory.misfit(), nullptr);
  EXPECT_THAT(*short_of_memory.misfit(), AllOf(Warns("memory", ""), Says("short")));
  machine.mem_available_bytes = 0;
  EXPECT_TRUE(make_swap_plan(small_model("[]"), machine).fits())
      << "what is not known is not short";
}

TEST(MachineFitTest, RanksShareTheMachine) {
  MachineFacts machine = test::baseline_machine();
  machine.paths.push_back({"/n", true, 3'000'000'000, ""});
  TrainingSetup setup = small_model("[]");
  setup.optimizer = OptimizerKind::kNone;
  EXPECT_THAT(make_swap_plan(setup, machine).warnings, Not(Contains(Warns("drive-space", ""))));
  setup.ranks_on_node = 2;
  EXPECT_THAT(make_swap_plan(setup, machine).warnings, Contains(Warns("drive-space", "")));
  EXPECT_FALSE(make_swap_plan(setup, machine).fits());
  machine.is_elsewhere = true;
  EXPECT_TRUE(make_swap_plan(setup, machine).fits()) << "the drives of this machine are others";
}

TEST(FeasibilityTest, ALimitHoldsForParametersAndForStatesEachForItself) {
  TrainingSetup setup = small_model(R"([{"path": "/n", "max_bytes": "1GiB"}])", "nvme");
  const SwapPlan refused = plan(setup);
  const std::uint64_t smallest = smallest_value(refused.feasibility.reason);
  EXPECT_LT(smallest, drive_bytes(refused));
  TrainingSetup parameters = small_model(R"([{"path": "/n", "max_bytes": "1GiB"}])", "cpu");
  EXPECT_GT(smallest, smallest_value(plan(parameters).feasibility.reason));
}

TEST(MachineFitTest, ATensorLiesWholeOnOneOfSeveralDrives) {
  TrainingSetup setup = small_model("[]");
  setup.optimizer = OptimizerKind::kNone;
  MachineFacts machine = test::baseline_machine();
  // The embedding has 311 MB, and all of them together have room for the model three times.
  for (std::uint64_t drive = 0; drive < 20; ++drive) {
    machine.paths.push_back({fmt::format("/n{}", drive), true, 300'000'000, "", drive});
  }
  EXPECT_THAT(make_swap_plan(setup, machine).warnings, Contains(Warns("drive-space", "")));
  for (PathFacts& path : machine.paths) {
    path.free_bytes = 600'000'000;
  }
  EXPECT_THAT(make_swap_plan(setup, machine).warnings, Not(Contains(Warns("drive-space", ""))));
}

TEST(MachineFitTest, WhatFilesOfOtherRanksHaveGrownByIsNotFree) {
  TrainingSetup setup = small_model("[]");
  setup.optimizer = OptimizerKind::kNone;
  const std::uint64_t needed = drive_bytes(plan(setup));
  setup.ranks_on_node = 2;
  MachineFacts machine = test::baseline_machine();
  machine.paths = {{"/n", true, 2 * needed + 128 * kMiB, "", 1}};
  EXPECT_THAT(make_swap_plan(setup, machine).warnings, Not(Contains(Warns("drive-space", ""))));
  --machine.paths[0].free_bytes;
  EXPECT_THAT(make_swap_plan(setup, machine).warnings, Contains(Warns("drive-space", "")));
}

TEST(MachineFitTest, ParametersAndStatesAreChargedToTheirOwnDrives) {
  const TrainingSetup setup = test::setup_with(test::data_inventory("qwen3-0.6b"), R"({
      "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/a"},
      "offload_optimizer": {"device": "nvme", "nvme_path": "/b"}}, "bf16": {"enabled": true},
      "penstock": {"ram_bytes": 0}})");
  MachineFacts machine = test::baseline_machine();
  // 1.2 GB of parameters with room for new ones, 7.2 GB of states.
  machine.paths = {{"/a", true, 4'000'000'000, "", 1}, {"/b", true, 9'000'000'000, "", 2}};
  EXPECT_THAT(make_swap_plan(setup, machine).warnings, Not(Contains(Warns("drive-space", ""))));
  std::swap(machine.paths[0].free_bytes, machine.paths[1].free_bytes);
  const SwapPlan plan = make_swap_plan(setup, machine);
  EXPECT_THAT(plan.warnings, Contains(AllOf(Warns("drive-space", ""), Says("the drive of /b is"))));
  EXPECT_FALSE(plan.fits());
  machine.paths = {{"/a", true, 9'000'000'000, "", 1}, {"/b", true, 9'000'000'000, "", 1}};
  EXPECT_THAT(make_swap_plan(setup, machine).warnings, Contains(Warns("drive-space", "")))
      << "one drive, whose free space counts once";
}

TEST(MachineFitTest, PythonAndTorchTakeOfTheSameMemory) {
  const TrainingSetup setup = test::setup_with(test::data_inventory("qwen3-0.6b"), R"({
      "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/a"},
      "offload_optimizer": {"device": "nvme", "nvme_path": "/a"}}, "bf16": {"enabled": true},
      "penstock": {"ram_bytes": "1GiB", "max_pinned_bytes": "64MiB"}})");
  MachineFacts machine = test::baseline_machine();
  const ProcessMemory process = make_swap_plan(setup, machine).process;
  machine.mem_available_bytes = process.runtime_bytes + process.planned_bytes;
  EXPECT_TRUE(make_swap_plan(setup, machine).fits());
  --machine.mem_available_bytes;
  EXPECT_THAT(make_swap_plan(setup, machine).warnings, Contains(Warns("memory", "")));
}

TEST(MachineFitTest, NoAmountIsSoLargeThatItFits) {
  TrainingSetup setup = small_model("[]");
  MachineFacts machine = test::baseline_machine();
  machine.has_accelerator = false;
  for (const std::uint64_t bytes : {18'446'744'073'000'000'000ULL, ~0ULL}) {
    setup.activation_bytes = bytes;
    const SwapPlan plan = make_swap_plan(setup, machine);
    EXPECT_EQ(plan.process.peak_bytes(), ~0ULL);
    EXPECT_THAT(plan.warnings, Contains(Warns("memory", "")));
  }
}

}  // namespace
}  // namespace penstock
