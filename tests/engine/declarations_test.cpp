#include "swap/engine/declarations.h"

#include <gtest/gtest.h>

#include "tests/engine/parts_fixture.h"

namespace penstock {
namespace {

using DeclarationsTest = PartsFixture;

TEST_F(DeclarationsTest, ForgettingEndsTheGetsThatWait) {
  TensorRecord& record = add_resident("a");
  const TensorId tensor = record.id;
  const auto reading = std::make_shared<TicketState>();
  const auto writing = std::make_shared<TicketState>();
  record.gets.for_read.push_back({reading});
  record.gets.for_write.push_back({writing});
  ASSERT_TRUE(ground_.declarations.forget(tensor).has_value());
  for (const auto& ticket : {reading, writing}) {
    ASSERT_TRUE(ticket->done());
    EXPECT_EQ(ticket->error()->code, make_error_code(Fault::kUnknownTensor));
  }
  EXPECT_EQ(ground_.memory.residency().held_bytes(), 0);
  EXPECT_EQ(store_->staged, std::vector<std::string>{"-a"});
  EXPECT_TRUE(ground_.declarations.info(tensor).has_error());
}

TEST_F(DeclarationsTest, OnlyAFirstPutThatFailedIsUndone) {
  const TensorId failed =
      ground_.declarations.declare(space_, {"a", DType::kU8, {kMiB}, Role::kParam}, true).value();
  TensorRecord& kept = add_resident("b");
  kept.drive.awaits_first_put = true;
  {
    Locked locked(ground_.context);
    ground_.declarations.undo(failed, locked);
    ground_.declarations.undo(kept.id, locked);
  }
  EXPECT_EQ(ground_.declarations.find(space_, "a"), std::nullopt);
  EXPECT_EQ(ground_.declarations.find(space_, "b"), kept.id);
}

TEST_F(DeclarationsTest, RefusesWhatNoTensorMayBe) {
  add("a");
  const auto code = [this](TensorInfo info, NamespaceId space) {
    return ground_.declarations.declare(space, std::move(info), false).error().code;
  };
  const auto invalid = make_error_code(Fault::kInvalidArgument);
  EXPECT_EQ(code({"a", DType::kU8, {1}, Role::kParam}, space_), invalid) << "taken";
  EXPECT_EQ(code({"b", DType::kU8, {1}, Role::kParam}, NamespaceId{77}), invalid);
  EXPECT_EQ(code({"b", DType::kU8, {0}, Role::kParam}, space_), make_error_code(Fault::kWrongSize));
}

}  // namespace
}  // namespace penstock
