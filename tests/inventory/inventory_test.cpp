#include "swap/plan/inventory.h"
#include "bindings/inventory/inventory_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/plan/plan_fixture.h"

namespace penstock {
namespace {

using test::ScratchDirectory;
using testing::HasSubstr;

constexpr std::string_view kTwo = R"({"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
                                  R"("b":{"dtype":"F32","shape":[4],"data_offsets":[12,28]}})";

TEST(InventoryTest, ReadsTheJsonFormInItsOrder) {
  const Inventory inventory = parse_inventory(R"({"model": "m", "tensors": [
          {"name": "z", "dtype": "bf16", "shape": [2, 3], "role": "param"},
          {"name": "a", "dtype": "float32", "shape": [], "role": "master", "more": 1},
          {"name": "m", "dtype": "u8", "shape": [0, 5]}]})",
                                              "x.json")
                                  .value();
  ASSERT_EQ(inventory.tensors.size(), 3U);
  EXPECT_EQ(inventory.tensors[0].name, "z");
  EXPECT_EQ(inventory.tensors[0].bytes(), 12U);
  EXPECT_EQ(inventory.tensors[1].role, Role::kMaster);
  EXPECT_EQ(inventory.tensors[1].elements(), 1U) << "a scalar";
  EXPECT_EQ(inventory.tensors[2].bytes(), 0U);
  EXPECT_EQ(inventory.tensors[2].role, Role::kParam);
  EXPECT_EQ(inventory.bytes(), 16U);
  EXPECT_EQ(inventory.elements(), 7U);
}

TEST(InventoryTest, TiesAreKnownWhereTheFileHasThem) {
  const auto parse = [](std::string_view ties) {
    return parse_inventory(
        fmt::format(R"({{"tensors": [{{"name": "a", "dtype": "u8", "shape": [1]}}]{}}})", ties),
        "x.json");
  };
  EXPECT_FALSE(parse("").value().ties.has_value());
  EXPECT_TRUE(parse(R"(, "ties": {})").value().ties->empty());
  const Inventory tied = parse(R"(, "ties": {"head": "a"})").value();
  ASSERT_EQ(tied.ties->size(), 1U);
  EXPECT_EQ(tied.ties->front().name, "head");
  EXPECT_EQ(tied.ties->front().tensor, "a");
  EXPECT_THAT(parse(R"(, "ties": [])").error().message, HasSubstr("has ties that are no object"));
  EXPECT_THAT(parse(R"(, "ties": {"head": 5})").error().message,
              HasSubstr("x.json: ties has 5 for head, not a name"));
}

TEST(InventoryTest, SaysWhatIsWrongWithTheJsonForm) {
  const auto message = [](std::string_view text) {
    const Result<Inventory> inventory = parse_inventory(text, "x.json");
    return inventory.has_error() ? inventory.error().message : "no error";
  };
  EXPECT_THAT(message("{"), HasSubstr("x.json is not valid JSON: parse error at line 1, column 2"));
  EXPECT_THAT(message("[]"), HasSubstr("x.json is not an inventory"));
  EXPECT_THAT(message(R"({"tensors": {}})"), HasSubstr("is not an inventory"));
  EXPECT_EQ(message(R"({"tensors": []})"), "x.json has no tensors");
  EXPECT_THAT(message(R"({"tensors": [{"dtype": "bf16", "shape": [1]}]})"),
              HasSubstr("tensors[0] has no name"));
  EXPECT_THAT(message(R"({"tensors": [{"name": "a", "dtype": "bf17", "shape": [1]}]})"),
              HasSubstr("tensors[0] (a) has a dtype that is not known: \"bf17\""));
  EXPECT_THAT(message(R"({"tensors": [{"name": "a", "dtype": "bf16", "shape": [-1]}]})"),
              HasSubstr("has -1 in its shape"));
  EXPECT_THAT(message(R"({"tensors": [{"name": "a", "dtype": "bf16", "shape": [1.5]}]})"),
              HasSubstr("has 1.5 in its shape"));
  EXPECT_THAT(message(R"({"tensors": [{"name": "a", "dtype": "bf16"}]})"),
              HasSubstr("has no shape"));
  EXPECT_THAT(message(R"({"tensors": [{"name": "a", "dtype": "bf16",
                                       "shape": [4294967296, 4294967296]}]})"),
              HasSubstr("more than 2^63 bytes"));
  EXPECT_THAT(
      message(R"({"tensors": [{"name": "a", "dtype": "u8", "shape": [1], "role": "weight"}]})"),
      HasSubstr("has a role that is not known"));
  EXPECT_THAT(message(R"({"tensors": [{"name": "a", "dtype": "u8", "shape": [1]},
                                      {"name": "a", "dtype": "u8", "shape": [1]}]})"),
              HasSubstr("has the tensor a twice"));
  EXPECT_THAT(message(R"({"tensors": [{"name": "a", "name": "b", "dtype": "u8", "shape": [1]}]})"),
              HasSubstr("has the key \"name\" twice"));
  EXPECT_THAT(message(std::string(100'000, '[')), HasSubstr("nested more than 64 levels"));
}

TEST(InventoryTest, TotalsThatWouldWrapAreRefused) {
  std::string text = R"({"tensors": [)";
  for (int i = 0; i < 4; ++i) {
    text += fmt::format(R"({}{{"name": "t{}", "dtype": "u8", "shape": [4611686018427387904]}})",
                        i == 0 ? "" : ",", i);
  }
  const Result<Inventory> inventory = parse_inventory(text + "]}", "x.json");
  ASSERT_TRUE(inventory.has_error());
  EXPECT_THAT(inventory.error().message, HasSubstr("2^56 bytes"));
}

TEST(InventoryTest, AMissingFileIsTheWorldsFault) {
  const Result<Inventory> inventory = load_inventory("/nonexistent/model.safetensors");
  ASSERT_TRUE(inventory.has_error());
  EXPECT_EQ(inventory.error().system_errno(), ENOENT);
  EXPECT_EQ(inventory.error().path, "/nonexistent/model.safetensors");
}

TEST(InventoryTest, ReadsADirectoryWithOneFile) {
  const ScratchDirectory directory;
  directory.write("model.safetensors", test::safetensors_bytes(kTwo, 28));
  EXPECT_EQ(load_inventory(directory.path()).value().tensors.size(), 2U);
}

TEST(InventoryTest, ReadsShardsThroughTheirIndex) {
  const ScratchDirectory directory;
  directory.write("model-1.safetensors", test::safetensors_bytes(kTwo, 28));
  directory.write(
      "model-2.safetensors",
      test::safetensors_bytes(R"({"c10":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                              R"("c9":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                              R"("unused":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                              3));
  const std::string index =
      directory.write("model.safetensors.index.json",
                      R"({"metadata": {"total_size": 30}, "weight_map": {"a": "model-1.safetensors",
          "b": "model-1.safetensors", "c9": "model-2.safetensors",
          "c10": "model-2.safetensors"}})");
  const Inventory inventory = load_inventory(directory.path()).value();
  ASSERT_EQ(inventory.tensors.size(), 4U);
  EXPECT_EQ(inventory.tensors[2].name, "c9") << "natural order";
  EXPECT_EQ(inventory.tensors[3].name, "c10");
  EXPECT_EQ(load_inventory(index).value().tensors.size(), 4U);
}

TEST(InventoryTest, AnIndexMustTellTheTruth) {
  const ScratchDirectory directory;
  directory.write("model-1.safetensors", test::safetensors_bytes(kTwo, 28));
  const auto message = [&directory](std::string_view index) {
    const Result<Inventory> inventory =
        load_inventory(directory.write("model.safetensors.index.json", index));
    return inventory.has_error() ? inventory.error().message : "no error";
  };
  EXPECT_THAT(message(R"({"weight_map": {"a": "model-9.safetensors"}})"),
              HasSubstr("names the shard model-9.safetensors, which is not there"));
  EXPECT_THAT(message("{\"weight_map\": {\"a\": \"s\x7f\"}}"),
              HasSubstr("names the shard s , which is not there"));
  EXPECT_THAT(message(R"({"weight_map": {"x": "model-1.safetensors"}})"),
              HasSubstr("says that x is in model-1.safetensors, which does not have it"));
  EXPECT_THAT(message(R"({"weight_map": {"a": "../model-1.safetensors"}})"),
              HasSubstr("is not a file beside the index"));
  EXPECT_THAT(message(R"({"weight_map": {"a": "/etc/passwd"}})"),
              HasSubstr("is not a file beside the index"));
  EXPECT_THAT(message(R"({"weight_map": {"a": 3}})"), HasSubstr("not the name of a file"));
  EXPECT_THAT(message(R"({"weight_map": []})"), HasSubstr("has no object \"weight_map\""));
  EXPECT_THAT(message(R"({"weight_map": {}})"), HasSubstr("has no tensors"));
  EXPECT_THAT(message("nonsense"), HasSubstr("is not valid JSON"));
}

TEST(InventoryTest, ADirectoryWithoutATensorSaysHowToMakeAnInventory) {
  const ScratchDirectory directory;
  directory.write("config.json", "{}");
  const Result<Inventory> inventory = load_inventory(directory.path());
  ASSERT_TRUE(inventory.has_error());
  EXPECT_THAT(inventory.error().message, HasSubstr("python -m penstock.inventory"));
  directory.write("a.safetensors", test::safetensors_bytes(kTwo, 28));
  EXPECT_TRUE(load_inventory(directory.path()).has_value()) << "the only one is meant";
  directory.write("b.safetensors", test::safetensors_bytes(kTwo, 28));
  EXPECT_THAT(load_inventory(directory.path()).error().message, HasSubstr("name the one"));
}

TEST(InventoryTest, DevicesAndPipesAreNoInventories) {
  const Result<Inventory> inventory = load_inventory("/dev/zero");
  ASSERT_TRUE(inventory.has_error());
  EXPECT_THAT(inventory.error().message, HasSubstr("is not a regular file"));
}

TEST(InventoryTest, TheInventoriesOfTheProjectAreWhole) {
  const Inventory small = test::data_inventory("qwen3-0.6b");
  EXPECT_EQ(small.tensors.size(), 310U);
  EXPECT_EQ(small.elements(), 596'049'920U);
  EXPECT_EQ(test::data_inventory("llama-3.1-8b").elements(), 8'030'261'248U);
  EXPECT_EQ(test::data_inventory("qwen2.5-7b").elements(), 7'615'616'512U);
  EXPECT_EQ(test::data_inventory("qwen3-30b-a3b").elements(), 30'532'122'624U);
}

}  // namespace
}  // namespace penstock
