#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "swap/plan/config.h"
#include "swap/plan/inventory.h"
#include "tests/plan/plan_fixture.h"

// Damaged input must end in an error or in something sound, never in a crash; the sanitizers watch.
namespace penstock {
namespace {

using test::ScratchDirectory;

constexpr std::string_view kHeader =
    R"({"__metadata__":{"format":"pt"},"model.embed.weight":{"dtype":"BF16","shape":[4,2],)"
    R"("data_offsets":[0,16]},"model.norm.weight":{"dtype":"F32","shape":[4],)"
    R"("data_offsets":[16,32]}})";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class Parse>
void try_mutations(const std::string& text, int rounds, Parse parse) {
  for (int seed = 0; seed < rounds; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::string damaged = text;
    for (std::size_t k = 1 + random() % 4; k > 0 && !damaged.empty(); --k) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, 1 + random() % 8);
          break;
        case 2:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 32));
          break;
        default:
          damaged[at] = "0123456789{}[]\",:-e."[random() % 20];
      }
    }
    parse(damaged);
  }
}

TEST(MalformedInputTest, SafetensorsCutAtEveryByteAreErrors) {
  const ScratchDirectory directory;
  const std::string whole = test::safetensors_bytes(kHeader, 32);
  ASSERT_TRUE(load_inventory(directory.write("m.safetensors", whole)).has_value());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::string path = directory.write("m.safetensors", whole.substr(0, bytes));
    const Result<Inventory> inventory = load_inventory(path);
    ASSERT_TRUE(inventory.has_error()) << "cut to " << bytes << " bytes";
    EXPECT_EQ(inventory.error().path, path);
    EXPECT_NE(inventory.error().message.find(path), std::string::npos);
  }
}

TEST(MalformedInputTest, SafetensorsWithAnyByteChangedNeverCrash) {
  const ScratchDirectory directory;
  const std::string whole = test::safetensors_bytes(kHeader, 32);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char other : {'\0', '\xff', '"', '9', '}'}) {
      std::string damaged = whole;
      damaged[at] = other;
      const Result<Inventory> inventory = load_inventory(directory.write("m.safetensors", damaged));
      if (inventory.has_error()) {
        EXPECT_FALSE(inventory.error().message.empty());
      }
    }
  }
}

TEST(MalformedInputTest, RandomlyDamagedHeadersNeverCrash) {
  try_mutations(std::string(kHeader), 20'000, [](const std::string& damaged) {
    const Result<Inventory> inventory = parse_safetensors_header(damaged, 32, "m.safetensors");
    if (inventory.has_value()) {
      EXPECT_LE(inventory->bytes(), 32U) << damaged;
    }
  });
}

TEST(MalformedInputTest, RandomlyDamagedInventoriesNeverCrash) {
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

TEST(MalformedInputTest, RandomlyDamagedConfigurationsNeverCrash) {
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

TEST(MalformedInputTest, ConfigurationsCutAnywhereAreErrors) {
  const std::string text = read_file(test::data_path("seed-003.json"));
  const std::size_t end = text.find_last_of('}');
  for (std::size_t bytes = 0; bytes < end; ++bytes) {
    ASSERT_TRUE(parse_config(text.substr(0, bytes), "ds.json").has_error()) << bytes;
  }
}

}  // namespace
}  // namespace penstock
