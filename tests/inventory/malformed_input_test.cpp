#include <gtest/gtest.h>

#include "bindings/inventory/inventory_file.h"
#include "bindings/inventory/safetensors_header.h"
#include "swap/plan/inventory.h"
#include "tests/plan/damaged_text.h"
#include "tests/plan/plan_fixture.h"

// Damaged input must end in an error or in something sound, never in a crash; the sanitizers watch.
namespace penstock {
namespace {

using test::ScratchDirectory;
using test::try_mutations;

constexpr std::string_view kHeader =
    R"({"__metadata__":{"format":"pt"},"model.embed.weight":{"dtype":"BF16","shape":[4,2],)"
    R"("data_offsets":[0,16]},"model.norm.weight":{"dtype":"F32","shape":[4],)"
    R"("data_offsets":[16,32]}})";

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
    const Result<Checkpoint> read = parse_safetensors_header(damaged, 32, "m.safetensors");
    if (read.has_value()) {
      EXPECT_LE(read->inventory().bytes(), 32U) << damaged;
    }
  });
}

}  // namespace
}  // namespace penstock
