#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "bindings/deepspeed/config.h"
#include "bindings/inventory/inventory_file.h"
#include "tests/plan/damaged_text.h"
#include "tests/training/training_fixture.h"

// Damaged input must end in an error or in a plan that is sound, never in a crash; the sanitizers
// watch.
namespace penstock {
namespace {

using test::try_mutations;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(MalformedFileTest, RandomlyDamagedInventoriesNeverCrash) {
  const std::string text = R"({"model":"m","tensors":[{"name":"a","dtype":"bf16","shape":[2,3],)"
                           R"("role":"param"},{"name":"b","dtype":"f32","shape":[4]}]})";
  try_mutations(text, 20'000, [](const std::string& damaged) {
    const Result<Inventory> inventory = parse_inventory(damaged, "m.json");
    if (inventory.has_value()) {
      const SwapPlan plan =
          make_swap_plan(test::setup_without_config(*inventory), test::baseline_machine());
      EXPECT_EQ(plan.tensors.size(), inventory->tensors.size());
    }
  });
}

TEST(MalformedFileTest, RandomlyDamagedConfigurationsNeverCrash) {
  const Inventory inventory = test::data_inventory("qwen3-0.6b");
  for (const char* name : {"seed-003.json", "full-finetune.json"}) {
    int planned = 0;
    try_mutations(read_file(test::data_path(name)), 5'000, [&](const std::string& damaged) {
      Result<Config> config = parse_config(damaged, "ds.json");
      if (config.has_value() && ++planned <= 300) {
        const SwapPlan plan = make_swap_plan(test::setup_with(inventory, std::move(*config)),
                                             test::baseline_machine());
        EXPECT_LE(plan.placement.pinned_bytes,
                  std::max(plan.placement.budgets.max_pinned_bytes, 4 * kMiB));
      }
    });
  }
}

TEST(MalformedFileTest, ConfigurationsCutAnywhereAreErrors) {
  const std::string text = read_file(test::data_path("seed-003.json"));
  const std::size_t end = text.find_last_of('}');
  for (std::size_t bytes = 0; bytes < end; ++bytes) {
    ASSERT_TRUE(parse_config(text.substr(0, bytes), "ds.json").has_error()) << bytes;
  }
}

}  // namespace
}  // namespace penstock
