#include "swap/engine/write_queue.h"

#include <gtest/gtest.h>

#include "tests/engine/parts_fixture.h"

namespace penstock {
namespace {

using WriteQueueTest = PartsFixture;

TEST_F(WriteQueueTest, AContentInMemoryIsSentAsItIs) {
  TensorRecord& record = add_resident("a");
  {
    Locked locked(ground_.context);
    ground_.writes.write_memory(record, ground_.writes.make(record, nullptr), locked);
    EXPECT_EQ(record.drive.writes_in_flight, 1);
    ground_.context.writes.begin_flush();
    EXPECT_FALSE(ground_.context.writes.has_flushed()) << "a flush waits for it";
    EXPECT_EQ(ground_.context.operations, 1);
    EXPECT_TRUE(worker_.sent.empty()) << "not under the lock";
  }
  ASSERT_EQ(worker_.sent.size(), 1);
  EXPECT_EQ(worker_.sent[0]->generation, 1);
  EXPECT_EQ(worker_.sent[0]->block, record.memory.block);
  EXPECT_EQ(worker_.sent[0]->source.data(), record.memory.block->data());
}

TEST_F(WriteQueueTest, WhatNoDriveHasIsKeptUntilTheNextContentIsSafe) {
  TensorRecord& record = add_resident("a");
  const std::shared_ptr<Block> block = record.memory.block;
  Locked locked(ground_.context);
  const WritingPtr writing = ground_.writes.make(record, nullptr);
  ground_.writes.replace(record, *writing, locked);
  EXPECT_EQ(writing->generation, 2);
  EXPECT_EQ(writing->before.block, block);
  EXPECT_EQ(writing->before.generation, 1);
  EXPECT_TRUE(record.memory.is_absent());
}

TEST_F(WriteQueueTest, AnArrivalIsAwaitedLikeARead) {
  TensorRecord& record = add("a");
  {
    Locked locked(ground_.context);
    const WritingPtr writing = ground_.writes.make(record, nullptr);
    writing->block = ground_.memory.resident_block(kMiB).value();
    ground_.writes.begin_arrival(record, writing, locked);
  }
  EXPECT_TRUE(record.memory.is_arriving());
  EXPECT_EQ(record.drive.writes_in_flight, 0);
  ASSERT_EQ(worker_.sent.size(), 1);
  EXPECT_EQ(worker_.sent[0]->fill, record.memory.fill());
}

}  // namespace
}  // namespace penstock
