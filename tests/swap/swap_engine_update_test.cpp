// Who changes a content and who reads it never meet in the same memory.

#include <gmock/gmock.h>

#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

class SwapEngineUpdateTest : public EngineFixture {
 protected:
  static constexpr std::uint64_t kBytes = kMiB + 100;

  /// Where its content is when it is first asked for: on a drive alone, or in RAM alone.
  void open_with_content(bool in_ram) {
    open(16 * kMiB, in_ram ? 16 * kMiB : 0);
    tensor_ = declare("t", kBytes);
    put(tensor_, content(kBytes, 1));
  }
  Lease read() { return engine_->get(tensor_).lease().value(); }
  Lease update() { return engine_->get(tensor_, Access::kUpdate).lease().value(); }
  void expect_being_changed(const Ticket& ticket) {
    const Result<Lease> lease = ticket.lease();
    ASSERT_TRUE(lease.has_error());
    EXPECT_EQ(lease.error().code, make_error_code(Fault::kInvalidArgument));
    EXPECT_EQ(lease.error().tensor, "t");
    EXPECT_THAT(lease.error().message, HasSubstr("'t' is being changed"));
  }
  static bool holds(const Lease& lease, unsigned seed) {
    return std::memcmp(lease.data(), content(kBytes, seed).data(), kBytes) == 0;
  }
  static void fill(const Lease& lease, unsigned seed) {
    std::memcpy(lease.data(), content(kBytes, seed).data(), kBytes);
  }

  TensorId tensor_{};
};

TEST_F(SwapEngineUpdateTest, AReaderKeepsItsContentWhileOthersChangeAndCommit) {
  for (const bool in_ram : {false, true}) {
    open_with_content(in_ram);
    const Lease reader = read();
    {
      const Lease changed = update();
      EXPECT_TRUE(holds(changed, 1)) << "what is to be changed is the last content";
      fill(changed, 2);
      EXPECT_TRUE(holds(reader, 1));
    }
    EXPECT_TRUE(holds(reader, 1)) << "an update that was dropped";
    expect_content(tensor_, content(kBytes, 1));
    const Lease changed = update();
    fill(changed, 3);
    ASSERT_TRUE(engine_->commit(changed).wait().has_value());
    EXPECT_TRUE(holds(reader, 1)) << "an update that was committed";
    expect_content(tensor_, content(kBytes, 3));
  }
}

TEST_F(SwapEngineUpdateTest, AGetDuringAnUpdateReadsWhatTheDriveHas) {
  open_with_content(false);
  Lease changed = update();
  fill(changed, 2);
  expect_content(tensor_, content(kBytes, 1));
  std::vector<std::byte> target(kBytes);
  ASSERT_TRUE(engine_->get_into(tensor_, target).wait().has_value());
  EXPECT_EQ(target, content(kBytes, 1));
  const Lease reader = read();
  ASSERT_TRUE(engine_->commit(changed).wait().has_value());
  changed.release();
  EXPECT_TRUE(holds(reader, 1));
  expect_content(tensor_, content(kBytes, 2));
}

TEST_F(SwapEngineUpdateTest, AGetDuringAnUpdateOfWhatRamAloneHasIsAnError) {
  open_with_content(true);
  ASSERT_FALSE(engine_->state(tensor_)->on_drive);
  const Lease changed = update();
  fill(changed, 2);
  expect_being_changed(engine_->get(tensor_));
  std::vector<std::byte> target(kBytes);
  EXPECT_TRUE(engine_->get_into(tensor_, target).wait().has_error());
  ASSERT_TRUE(engine_->commit(changed).wait().has_value());
  expect_content(tensor_, content(kBytes, 2));
  fill(engine_->allocate(tensor_).value(), 3);
  EXPECT_EQ(engine_->state(tensor_)->generation, 2U);
}

TEST_F(SwapEngineUpdateTest, ASecondUpdateIsAnErrorUntilTheFirstHasEnded) {
  for (const bool in_ram : {false, true}) {
    open_with_content(in_ram);
    Lease changed = update();
    expect_being_changed(engine_->get(tensor_, Access::kUpdate));
    fill(changed, 2);
    ASSERT_TRUE(engine_->commit(changed).wait().has_value());
    {
      const Lease second = update();
      EXPECT_NE(second.data(), changed.data()) << "the first is still looked at";
      EXPECT_TRUE(holds(second, 2));
      fill(second, 3);
      EXPECT_TRUE(holds(changed, 2));
    }
    changed.release();
    expect_content(tensor_, content(kBytes, 2));
    changed = update();
    const Lease view = changed;
    changed.end_update();
    changed.release();
    EXPECT_TRUE(holds(update(), 2)) << "given up, and others look at it";
    EXPECT_TRUE(holds(view, 2));
  }
}

TEST_F(SwapEngineUpdateTest, OfTwoThatWaitForTheSameReadOneIsAnError) {
  open_with_content(false);
  const Ticket reading = engine_->get(tensor_);
  const Ticket first = engine_->get(tensor_, Access::kUpdate);
  const Ticket second = engine_->get(tensor_, Access::kUpdate);
  const Lease changed = first.lease().value();
  fill(changed, 2);
  EXPECT_TRUE(holds(reading.lease().value(), 1));
  expect_being_changed(second);
}

TEST_F(SwapEngineUpdateTest, WithoutReadersNothingIsCopied) {
  for (const bool in_ram : {false, true}) {
    open_with_content(in_ram);
    const std::byte* const before = read().data();
    const Lease changed = update();
    if (in_ram) {
      EXPECT_EQ(changed.data(), before);
    }
    EXPECT_EQ(engine_->stats().tensor_read_bytes, in_ram ? 0 : engine_->stats().misses * kBytes);
  }
}

TEST_F(SwapEngineUpdateTest, EachGetIsOneOfHitLateAndMiss) {
  for (const bool in_ram : {false, true}) {
    open_with_content(in_ram);
    const SwapStats before = engine_->stats();
    for (std::uint64_t round = 1; round <= 3; ++round) {
      update().release();
      read().release();
      const SwapStats now = engine_->stats();
      EXPECT_EQ(now.gets - before.gets, 2 * round);
      EXPECT_EQ(now.hits + now.resident_hits + now.late + now.misses,
                before.hits + before.resident_hits + before.late + before.misses + 2 * round);
    }
    EXPECT_EQ(engine_->stats().misses - before.misses > 0, !in_ram);
  }
}

TEST_F(SwapEngineUpdateTest, WhatWasTakenToReadIsNotCommitted) {
  open_with_content(false);
  const Result<void> committed = engine_->commit(read()).wait();
  ASSERT_TRUE(committed.has_error());
  EXPECT_EQ(committed.error().code, make_error_code(Fault::kInvalidArgument));
  EXPECT_THAT(committed.error().message, HasSubstr("lease of tensor 't' was taken to read"));
  EXPECT_EQ(engine_->state(tensor_)->generation, 1U);
}

}  // namespace
}  // namespace penstock
