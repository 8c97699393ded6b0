#include "swap/engine/tensor_table.h"

#include <gtest/gtest.h>

#include "tests/engine/parts_fixture.h"

namespace penstock {
namespace {

using TensorTableTest = PartsFixture;

TEST_F(TensorTableTest, FindsByNumberAndByName) {
  TensorRecord& record = add("layers.10.weight");
  add("layers.9.weight");
  EXPECT_EQ(ground_.table.record_of(record.id), &record);
  EXPECT_EQ(ground_.table.find(space_, "layers.10.weight"), record.id);
  EXPECT_EQ(ground_.table.find(NamespaceId{77}, "layers.10.weight"), std::nullopt);
  const std::vector<TensorId> in_order = ground_.table.tensors(space_);
  ASSERT_EQ(in_order.size(), 2);
  EXPECT_EQ(in_order.back(), record.id) << "natural order";
}

TEST_F(TensorTableTest, ARenameIsStagedAndTakesTheRulesOfTheNewName) {
  ground_.context.options.config.tensors = {{"embed*", {}, {}, Place::kRam, {}}};
  TensorRecord& record = add("tensor 0");
  EXPECT_EQ(record.ruled, std::nullopt);
  ASSERT_TRUE(ground_.table.rename(record, "embed_tokens").has_value());
  EXPECT_EQ(record.ruled, Place::kRam);
  EXPECT_EQ(store_->staged, std::vector<std::string>{"tensor 0>embed_tokens"});
  EXPECT_EQ(ground_.table.find(space_, "tensor 0"), std::nullopt);
  add("tensor 1");
  const Result<void> taken = ground_.table.rename(record, "tensor 1");
  ASSERT_TRUE(taken.has_error());
  EXPECT_EQ(ground_.table.find(space_, "embed_tokens"), record.id) << "it keeps its name";
}

TEST_F(TensorTableTest, NumbersAreNeverUsedAgain) {
  TensorRecord& record = add("a");
  const TensorId id = record.id;
  ground_.table.free_name(record);
  ground_.table.erase(record);
  EXPECT_EQ(ground_.table.record_of(id), nullptr);
  EXPECT_NE(add("a").id, id);
  EXPECT_EQ(ground_.table.unknown(id).code, make_error_code(Fault::kUnknownTensor));
  ground_.context.closed = true;
  EXPECT_EQ(ground_.table.unknown(id).code, make_error_code(Fault::kClosed));
}

}  // namespace
}  // namespace penstock
