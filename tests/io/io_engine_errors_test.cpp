#include <cerrno>
#include <chrono>

#include "tests/io/scripted_engine.h"

namespace penstock {
namespace {

using Issued = ScriptedEngine::Issued;

class IoEngineErrors : public ScriptedFixture {};

TEST_F(IoEngineErrors, MovingNothingIsTheEndOfTheFileOrABrokenDrive) {
  TestOp read;
  TestOp write;
  submit(read, IoKind::kRead, 100, 5000);
  submit(write, IoKind::kWrite, 100, 6000);
  engine_.poll();
  for (const Issued& request : engine_.take_issued()) {
    engine_.answer(request, 0);
  }
  engine_.poll();
  EXPECT_EQ(read.error, ENODATA);
  EXPECT_EQ(read.error_offset, 5000U);
  EXPECT_EQ(write.error, EIO);
  EXPECT_EQ(write.error_offset, 6000U);
  EXPECT_EQ(engine_.stats().errors, 2U);
}

TEST_F(IoEngineErrors, TheFirstErrorStopsTheRestAndWaitsForWhatIsInFlight) {
  TestOp op;
  submit(op, IoKind::kRead, 20 * kBlock);
  engine_.poll();
  const std::vector<Issued> issued = engine_.take_issued();
  engine_.answer(issued[2], -EIO);
  engine_.poll();
  EXPECT_TRUE(engine_.take_issued().empty());
  EXPECT_EQ(op.calls, 0) << "the kernel still writes into this memory";
  engine_.answer(issued[0], kBlock);
  engine_.answer(issued[1], 10);       // short: not continued
  engine_.answer(issued[3], -EAGAIN);  // nor tried again
  engine_.poll();
  EXPECT_TRUE(engine_.take_issued().empty());
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, EIO);
  EXPECT_EQ(op.error_offset, 2 * kBlock);
  EXPECT_TRUE(engine_.idle());
}

TEST_F(IoEngineErrors, OfSeveralTheFirstPlaceInTheFileIsReported) {
  TestOp op;
  submit(op, IoKind::kRead, 4 * kBlock);
  engine_.poll();
  const std::vector<Issued> issued = engine_.take_issued();
  engine_.answer(issued[3], 0);
  engine_.answer(issued[1], -EIO);
  engine_.answer(issued[2], -ENXIO);
  engine_.answer(issued[0], kBlock);
  engine_.poll();
  EXPECT_EQ(op.error, EIO);
  EXPECT_EQ(op.error_offset, kBlock);
}

TEST_F(IoEngineErrors, OneFailureLeavesOthersAlone) {
  TestOp bad;
  TestOp good;
  submit(bad, IoKind::kRead, 6 * kBlock);
  submit(good, IoKind::kRead, 2 * kBlock, 100 * kBlock);
  engine_.poll();
  for (const Issued& request : engine_.take_issued()) {
    engine_.answer(request, -EIO);
  }
  engine_.poll();
  EXPECT_EQ(bad.calls, 1);
  engine_.answer_all();
  engine_.poll();
  EXPECT_EQ(good.calls, 1);
  EXPECT_EQ(good.error, 0);
}

TEST_F(IoEngineErrors, AnOperationMayBeUsedAgainAfterAFailure) {
  TestOp op;
  submit(op, IoKind::kRead, kBlock);
  engine_.poll();
  engine_.answer(engine_.take_one(), -EIO);
  engine_.poll();
  submit(op, IoKind::kRead, kBlock);
  engine_.poll();
  engine_.answer_all();
  engine_.poll();
  EXPECT_EQ(op.calls, 2);
  EXPECT_EQ(op.error, 0);
}

TEST_F(IoEngineErrors, CancelEndsAQueuedOperationAtOnce) {
  TestOp running;
  TestOp queued;
  submit(running, IoKind::kRead, 4 * kBlock);
  submit(queued, IoKind::kRead, kBlock);
  engine_.poll();
  engine_.cancel(queued);
  engine_.cancel(queued);
  EXPECT_EQ(queued.calls, 0) << "callbacks are for poll()";
  engine_.poll();
  EXPECT_EQ(queued.calls, 1);
  EXPECT_EQ(queued.error, ECANCELED);
  engine_.cancel(queued);  // it is over
  engine_.answer_all();
  engine_.poll();
  EXPECT_EQ(running.error, 0);
  EXPECT_EQ(queued.calls, 1);
}

TEST_F(IoEngineErrors, CancelWaitsForWhatIsInFlight) {
  TestOp op;
  submit(op, IoKind::kRead, 9 * kBlock);
  engine_.poll();
  const std::vector<Issued> issued = engine_.take_issued();
  engine_.cancel(op);
  for (const Issued& request : issued) {
    EXPECT_EQ(op.calls, 0);
    engine_.answer(request, request.bytes);
    engine_.poll();
  }
  EXPECT_TRUE(engine_.take_issued().empty());
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, ECANCELED);
}

TEST_F(IoEngineErrors, CancelDropsWhatWaitsToBeTriedAgain) {
  TestOp op;
  submit(op, IoKind::kRead, kBlock);
  engine_.poll();
  engine_.answer(engine_.take_one(), -EAGAIN);
  engine_.room = 0;
  engine_.poll();
  engine_.cancel(op);
  engine_.poll();
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, ECANCELED);
  EXPECT_TRUE(engine_.idle());
}

TEST_F(IoEngineErrors, AnErrorStaysWhatItWasWhenCancelled) {
  TestOp op;
  submit(op, IoKind::kRead, 4 * kBlock);
  engine_.poll();
  const std::vector<Issued> issued = engine_.take_issued();
  engine_.answer(issued[1], -EIO);
  engine_.poll();
  engine_.cancel(op);
  for (const std::size_t index : {0U, 2U, 3U}) {
    engine_.answer(issued[index], kBlock);
  }
  engine_.poll();
  EXPECT_EQ(op.error, EIO);
  EXPECT_EQ(op.error_offset, kBlock);
}

TEST_F(IoEngineErrors, AFinishedOperationCannotBeCancelledAnyMore) {
  TestOp op;
  submit(op, IoKind::kRead, 0);
  engine_.cancel(op);
  engine_.poll();
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, 0);
}

TEST_F(IoEngineErrors, FlaggedOperationsAreCancelledWhereverTheyAre) {
  TestOp running;
  TestOp partly;
  TestOp queued;
  TestOp other;
  submit(running, IoKind::kRead, 2 * kBlock);
  submit(partly, IoKind::kRead, 5 * kBlock);
  engine_.poll();
  submit(queued, IoKind::kRead, kBlock);
  submit(other, IoKind::kRead, kBlock);
  for (TestOp* op : {&running, &partly, &queued}) {
    op->cancelled = true;
  }
  engine_.cancel_flagged();
  engine_.cancel_flagged();
  engine_.poll();
  EXPECT_EQ(queued.calls, 1);
  EXPECT_EQ(queued.error, ECANCELED);
  EXPECT_EQ(running.calls + partly.calls, 0) << "the kernel still writes into their memory";
  engine_.answer_all();
  engine_.poll();
  for (const TestOp* op : {&running, &partly}) {
    EXPECT_EQ(op->calls, 1);
    EXPECT_EQ(op->error, ECANCELED);
  }
  engine_.answer_all();
  engine_.poll();
  EXPECT_EQ(other.calls, 1);
  EXPECT_EQ(other.error, 0);
}

TEST_F(IoEngineErrors, AnOperationFlaggedBeforeItArrivesIsNeverIssued) {
  TestOp op;
  op.cancelled = true;
  submit(op, IoKind::kRead, kBlock);
  engine_.poll();
  EXPECT_TRUE(engine_.take_issued().empty());
  EXPECT_EQ(op.calls, 1);
  EXPECT_EQ(op.error, ECANCELED);
}

TEST_F(IoEngineErrors, DeadlinesEndWhatIsLateAndOnlyThat) {
  const IoOp::TimePoint begin{};
  const auto at = [begin](int seconds) { return begin + std::chrono::seconds(seconds); };
  TestOp running;  // all of it issued
  TestOp partly;
  TestOp queued;
  TestOp patient;
  running.deadline = at(3);
  partly.deadline = at(1);
  queued.deadline = at(2);
  submit(running, IoKind::kRead, kBlock);
  submit(partly, IoKind::kRead, 9 * kBlock, 10 * kBlock);
  submit(queued, IoKind::kRead, kBlock);
  submit(patient, IoKind::kRead, kBlock);
  engine_.poll();
  const std::vector<Issued> issued = engine_.take_issued();
  EXPECT_EQ(engine_.expire(at(0)), at(1));
  EXPECT_EQ(engine_.expire(at(1)), at(2)) << "a deadline is late when it is now";
  engine_.poll();
  EXPECT_EQ(partly.calls, 0) << "the kernel still writes into its memory";
  EXPECT_EQ(engine_.expire(at(2)), at(3));
  engine_.poll();
  EXPECT_EQ(queued.calls, 1);
  EXPECT_EQ(queued.error, ETIMEDOUT);
  EXPECT_EQ(engine_.expire(at(3)), IoOp::kNoDeadline);
  engine_.answer(issued[0], kBlock);
  engine_.answer(issued[1], -EIO);
  engine_.answer(issued[2], kBlock);
  engine_.answer(issued[3], 10);  // short: not continued
  engine_.poll();
  EXPECT_EQ(running.error, ETIMEDOUT) << "all bytes came, but late";
  EXPECT_EQ(partly.error, ETIMEDOUT);
  EXPECT_EQ(partly.error_offset, 10 * kBlock);
  engine_.answer_all();
  engine_.poll();
  EXPECT_EQ(patient.error, 0);
  EXPECT_TRUE(engine_.idle());
}

TEST_F(IoEngineErrors, AFailureIsNotAlsoATimeout) {
  TestOp op;
  op.deadline = IoOp::TimePoint{};
  submit(op, IoKind::kRead, 4 * kBlock, 7 * kBlock);
  engine_.poll();
  const std::vector<Issued> issued = engine_.take_issued();
  engine_.answer(issued[3], -EIO);
  engine_.poll();
  EXPECT_EQ(engine_.expire(op.deadline), IoOp::kNoDeadline);
  for (const std::size_t index : {0U, 1U, 2U}) {
    engine_.answer(issued[index], kBlock);
  }
  engine_.poll();
  EXPECT_EQ(op.error, EIO);
  EXPECT_EQ(op.error_offset, 10 * kBlock);
}

TEST_F(IoEngineErrors, DestroyingAnEngineEndsWhatItHas) {
  TestOp queued;
  TestOp partly;
  TestOp issued;
  {
    ScriptedEngine engine({kBlock, 2});
    issued.set(IoKind::kRead, buffered_, memory_.span().first(kBlock), 0);
    partly.set(IoKind::kRead, buffered_, memory_.span().first(5 * kBlock), 0);
    queued.set(IoKind::kWrite, buffered_, memory_.span().first(kBlock), 0);
    engine.submit(issued);
    engine.submit(partly);
    engine.submit(queued);
    engine.poll();
  }
  EXPECT_EQ(issued.calls, 1);
  EXPECT_EQ(issued.error, 0) << "it ends as it ends";
  EXPECT_EQ(partly.calls, 1);
  EXPECT_EQ(partly.error, ECANCELED);
  EXPECT_EQ(queued.calls, 1);
  EXPECT_EQ(queued.error, ECANCELED);
}

TEST_F(IoEngineErrors, WhatIsSubmittedToAnEndingEngineIsCancelled) {
  struct Chain : TestOp {
    ScriptedEngine* engine = nullptr;
    TestOp* next = nullptr;
  };
  TestOp next;
  Chain first;
  {
    ScriptedEngine engine({kBlock, 2});
    next.set(IoKind::kRead, buffered_, memory_.span().first(kBlock), 0);
    first.set(IoKind::kRead, buffered_, memory_.span().first(kBlock), 0);
    first.engine = &engine;
    first.next = &next;
    first.on_complete = [](IoOp& op) noexcept {
      auto& chain = static_cast<Chain&>(op);
      ++chain.calls;
      chain.engine->submit(*chain.next);
    };
    engine.submit(first);
  }
  EXPECT_EQ(first.calls, 1);
  EXPECT_EQ(next.calls, 1);
  EXPECT_EQ(next.error, ECANCELED);
}

class IoEngineDeathTest : public ScriptedFixture {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(IoEngineDeathTest, SubmittingTwiceIsOurFault) {
  TestOp op;
  EXPECT_DEATH(
      {
        submit(op, IoKind::kRead, kBlock);
        engine_.submit(op);
      },
      "submitted twice");
  EXPECT_DEATH(
      {
        submit(op, IoKind::kRead, 0);
        engine_.submit(op);
      },
      "submitted twice");
}

TEST_F(IoEngineDeathTest, MoreBytesThanWereAskedForIsABrokenBackend) {
  TestOp op;
  EXPECT_DEATH(
      {
        submit(op, IoKind::kRead, kBlock);
        engine_.poll();
        engine_.answer(engine_.take_one(), kBlock + 1);
        engine_.poll();
      },
      "moved 16385 of 16384");
  EXPECT_DEATH(
      {
        engine_.answer({nullptr, nullptr, 0, 0, 2}, 5);
        engine_.poll();
      },
      "not in flight");
}

}  // namespace
}  // namespace penstock
