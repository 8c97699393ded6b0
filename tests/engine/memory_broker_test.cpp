#include "swap/engine/memory_broker.h"

#include <gtest/gtest.h>

#include "tests/engine/parts_fixture.h"

namespace penstock {
namespace {

class MemoryBrokerTest : public PartsFixture {
 protected:
  bool claims(TensorRecord& record) {
    Locked locked(ground_.context);
    return ground_.broker.claim_residency(record, locked);
  }
  bool holds(const TensorRecord& record) { return ground_.memory.residency().holds(record.id); }
};

TEST_F(MemoryBrokerTest, AStrongerClaimSendsWeakerOnesToTheirDrives) {
  TensorRecord& weak = add_resident("weak", 3 * kMiB);
  ground_.context.options.config.tensors = {{"strong", {}, {}, Place::kRam, {}}};
  TensorRecord& strong = add("strong", 2 * kMiB);
  EXPECT_TRUE(claims(strong));
  EXPECT_TRUE(holds(strong));
  EXPECT_FALSE(holds(weak));
  ASSERT_EQ(worker_.sent.size(), 1) << "no drive has it yet";
  EXPECT_EQ(worker_.sent[0]->id, weak.id);
  EXPECT_TRUE(weak.memory.is_current()) << "readable until it is written";
}

TEST_F(MemoryBrokerTest, AnEqualClaimFindsNoRoom) {
  TensorRecord& first = add_resident("first", 3 * kMiB);
  EXPECT_FALSE(claims(add("second", 2 * kMiB)));
  EXPECT_TRUE(holds(first));
  EXPECT_TRUE(worker_.sent.empty());
}

TEST_F(MemoryBrokerTest, WhatIsBeingChangedLeavesWhenItsLeaseEnds) {
  TensorRecord& record = add_resident("a");
  Lease lease = ground_.memory.lend(record, EngineMemory::Lent::kToUpdate);
  {
    Locked locked(ground_.context);
    ground_.broker.demote(record, locked);
  }
  EXPECT_TRUE(holds(record));
  EXPECT_TRUE(worker_.sent.empty());
  lease.release();
  EXPECT_FALSE(holds(record));
  ASSERT_EQ(worker_.sent.size(), 1);
  EXPECT_EQ(worker_.did, (std::vector<std::string>{"send", "run ahead"}));
}

TEST_F(MemoryBrokerTest, TheLastLeaseOfWhatADriveHasFreesIt) {
  TensorRecord& record = add("a");
  record.memory.block = ground_.memory.resident_block(kMiB).value();
  record.drive.stored = std::make_shared<StoredTensor>();
  record.drive.generation = record.generation = 1;
  record.memory.become_current(1);
  Lease first = ground_.memory.lend(record, EngineMemory::Lent::kToRead);
  Lease second = ground_.memory.lend(record, EngineMemory::Lent::kToRead);
  first.release();
  EXPECT_TRUE(record.memory.is_current());
  second.release();
  EXPECT_TRUE(record.memory.is_absent());
}

TEST_F(MemoryBrokerTest, WithoutASlotMemoryIsPageable) {
  TensorRecord& record = add("a");
  ground_.memory.set_planned(true);
  const std::shared_ptr<Block> block = ground_.broker.obtain(record.id).value();
  EXPECT_TRUE(block->overflows());
  EXPECT_FALSE(block->precedes_plan);
  EXPECT_TRUE(ground_.broker.obtain(TensorId{77}).has_error());
}

TEST_F(MemoryBrokerTest, GradientsNeverStay) {
  TensorRecord& gradient = ground_.table.add(space_, {"g", DType::kU8, {kMiB}, Role::kGradient});
  EXPECT_FALSE(claims(gradient));
}

}  // namespace
}  // namespace penstock
