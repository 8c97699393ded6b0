#include <gmock/gmock.h>

#include <cerrno>

#include "tests/io/scripted_engine.h"

namespace penstock {
namespace {

using Issued = ScriptedEngine::Issued;

class IoEngineTransfer : public ScriptedFixture {};

TEST_F(IoEngineTransfer, CutsAnOperationIntoBlocksUpToTheDepth) {
  TestOp op;
  submit(op, IoKind::kRead, 5 * kBlock + 100, 3 * kBlock);
  EXPECT_TRUE(engine_.take_issued().empty()) << "submit only queues";
  EXPECT_EQ(op.state, IoOp::State::kQueued);
  engine_.poll();
  EXPECT_EQ(op.state, IoOp::State::kInFlight);
  const std::vector<Issued> first = engine_.take_issued();
  ASSERT_EQ(first.size(), 4U);
  for (std::size_t index = 0; index < first.size(); ++index) {
    EXPECT_EQ(first[index].offset, (3 + index) * kBlock);
    EXPECT_EQ(first[index].data, memory_.data() + index * kBlock);
    EXPECT_EQ(first[index].bytes, kBlock);
  }
  EXPECT_EQ(engine_.kicks, 1) << "one system call for the batch";
  engine_.answer(first[2], kBlock);
  engine_.answer(first[0], kBlock);
  engine_.poll();
  const std::vector<Issued> rest = engine_.take_issued();
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[1].offset, 8 * kBlock);
  EXPECT_EQ(rest[1].bytes, 100U);
  for (const Issued& request : {rest[1], first[3], rest[0]}) {  // in any order
    engine_.answer(request, request.bytes);
  }
  EXPECT_EQ(engine_.poll(), 0U);
  EXPECT_EQ(op.calls, 0);
  engine_.answer(first[1], kBlock);
  EXPECT_EQ(engine_.poll(), 1U);
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, 0);
  EXPECT_EQ(op.state, IoOp::State::kDone);
  EXPECT_TRUE(engine_.idle());
  EXPECT_EQ(engine_.stats().read_bytes, 5 * kBlock + 100U);
  EXPECT_EQ(engine_.stats().requests, 6U);
  EXPECT_EQ(engine_.stats().read_ops, 1U);
}

TEST_F(IoEngineTransfer, NothingCompletesAtTheNextPollAndNotBefore) {
  TestOp op;
  submit(op, IoKind::kWrite, 0);
  EXPECT_EQ(op.calls, 0);
  EXPECT_FALSE(engine_.idle());
  engine_.poll();
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, 0);
  EXPECT_TRUE(engine_.take_issued().empty());
  EXPECT_TRUE(engine_.idle());
}

TEST_F(IoEngineTransfer, AShortTransferGoesOnWhereItEnded) {
  TestOp op;
  submit(op, IoKind::kWrite, kBlock, 7);
  engine_.poll();
  engine_.answer(engine_.take_one(), 5001);
  engine_.poll();
  const Issued rest = engine_.take_one();
  EXPECT_EQ(rest.offset, 7 + 5001U);
  EXPECT_EQ(rest.data, memory_.data() + 5001);
  EXPECT_EQ(rest.bytes, kBlock - 5001);
  EXPECT_EQ(op.calls, 0);
  engine_.answer(rest, rest.bytes);
  engine_.poll();
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, 0);
  EXPECT_EQ(engine_.stats().short_transfers, 1U);
  EXPECT_EQ(engine_.stats().write_bytes, kBlock);
}

TEST_F(IoEngineTransfer, ByteByByteIsStillComplete) {
  TestOp op;
  submit(op, IoKind::kRead, 40);
  engine_.poll();
  for (int byte = 0; byte < 40; ++byte) {
    EXPECT_EQ(op.calls, 0);
    engine_.answer(engine_.take_one(), 1);
    engine_.poll();
  }
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, 0);
}

TEST_F(IoEngineTransfer, InterruptedAndRefusedForNowAreTriedAgain) {
  TestOp op;
  submit(op, IoKind::kRead, kBlock);
  engine_.poll();
  for (const int error : {EINTR, EAGAIN, EAGAIN, EINTR}) {
    engine_.answer(engine_.take_one(), -error);
    engine_.poll();
    EXPECT_EQ(op.calls, 0);
  }
  const Issued last = engine_.take_one();
  EXPECT_EQ(last.bytes, kBlock);
  engine_.answer(last, kBlock);
  engine_.poll();
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, 0);
  EXPECT_EQ(engine_.stats().retries, 4U);
  EXPECT_EQ(engine_.stats().requests, 5U);
}

TEST_F(IoEngineTransfer, ABackendWithoutRoomIsAskedAgain) {
  TestOp op;
  engine_.room = 1;
  submit(op, IoKind::kRead, 3 * kBlock);
  engine_.poll();
  const Issued first = engine_.take_one();
  EXPECT_EQ(first.offset, 0U);
  engine_.poll();
  EXPECT_TRUE(engine_.take_issued().empty());
  engine_.room = 1;
  engine_.poll();
  const Issued second = engine_.take_one();
  EXPECT_EQ(second.offset, kBlock) << "the piece that was refused, not one after it";
  engine_.room = 10;
  engine_.answer(first, kBlock);
  engine_.answer(second, kBlock);
  engine_.poll();
  engine_.answer(engine_.take_one(), kBlock);
  engine_.poll();
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, 0);
}

class IoEngineDirectTransfer : public ScriptedFixture {
 protected:
  void SetUp() override {
    if (!direct_.direct().supported) {
      GTEST_SKIP() << direct_.direct().reason;
    }
    step_ = std::max(direct_.direct().memory_alignment, direct_.direct().offset_alignment);
    ASSERT_LE(step_, kBlock / 2);
  }
  void submit_direct(TestOp& op, IoKind kind) {
    op.set(kind, direct_, memory_.span().first(kBlock), 0);
    engine_.submit(op);
    engine_.poll();
  }

  File direct_ = std::move(File::create_scratch(directory_.path())).value();
  std::uint32_t step_ = 1;
};

TEST_F(IoEngineDirectTransfer, StepsBackToWhatIsAligned) {
  TestOp op;
  submit_direct(op, IoKind::kRead);
  engine_.answer(engine_.take_one(), step_ + step_ / 2);
  engine_.poll();
  const Issued rest = engine_.take_one();
  EXPECT_EQ(rest.offset, step_);
  EXPECT_EQ(rest.data, memory_.data() + step_);
  EXPECT_EQ(rest.bytes, kBlock - step_);
  engine_.answer(rest, rest.bytes);
  engine_.poll();
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, 0);
}

TEST_F(IoEngineDirectTransfer, LessThanAStepIsTriedOnceMore) {
  TestOp op;
  submit_direct(op, IoKind::kWrite);
  engine_.answer(engine_.take_one(), step_ / 2);
  engine_.poll();
  engine_.answer(engine_.take_one(), step_);  // progress: the count begins anew
  engine_.poll();
  engine_.answer(engine_.take_one(), step_ / 2);
  engine_.poll();
  const Issued rest = engine_.take_one();
  EXPECT_EQ(rest.offset, step_);
  engine_.answer(rest, rest.bytes);
  engine_.poll();
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, 0);
}

TEST_F(IoEngineDirectTransfer, AFileThatEndsWithinAStepHasNoMoreData) {
  for (const IoKind kind : {IoKind::kRead, IoKind::kWrite}) {
    TestOp op;
    submit_direct(op, kind);
    engine_.answer(engine_.take_one(), step_ + 100);
    engine_.poll();
    for (int time = 0; time < 2; ++time) {
      EXPECT_EQ(op.calls, 0);
      engine_.answer(engine_.take_one(), 100);
      engine_.poll();
    }
    EXPECT_EQ(op.calls, 1);
    EXPECT_EQ(op.error, kind == IoKind::kRead ? ENODATA : EIO);
    EXPECT_EQ(op.error_offset, step_ + 100U);
  }
}

}  // namespace
}  // namespace penstock
