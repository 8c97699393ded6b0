#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>

#include "tests/io/scripted_engine.h"

namespace penstock {
namespace {

using testing::ElementsAre;

/// Depth 1: the order in which pieces are issued is plain to see.
class IoEngineOrder : public ScriptedFixture {
 protected:
  IoEngineOrder() : ScriptedFixture(1) {}

  TestOp& submit(TestOp& op, IoPriority priority, std::uint64_t blocks) {
    op.priority = priority;
    const IoKind kind = priority == IoPriority::kBehind ? IoKind::kWrite : IoKind::kRead;
    return ScriptedFixture::submit(op, kind, blocks * kBlock);
  }
  // Polls `count` pieces through; returns whose they were.
  std::vector<IoOp*> issue(int count) {
    std::vector<IoOp*> order;
    while (count-- != 0) {
      engine_.poll();
      const ScriptedEngine::Issued one = engine_.take_one();
      order.push_back(one.op);
      engine_.answer(one, one.bytes);
    }
    return order;
  }
  void TearDown() override {
    engine_.poll();
    EXPECT_TRUE(engine_.idle());
  }

  TestOp demand_;
  TestOp ahead_;
  TestOp behind_;
  TestOp other_;
};

TEST_F(IoEngineOrder, DemandFirstThenAheadAndBehindTakeTurns) {
  submit(behind_, IoPriority::kBehind, 4);
  submit(ahead_, IoPriority::kAhead, 2);
  submit(demand_, IoPriority::kDemand, 2);
  EXPECT_THAT(issue(8), ElementsAre(&demand_, &demand_, &ahead_, &behind_, &ahead_, &behind_,
                                    &behind_, &behind_));
}

TEST_F(IoEngineOrder, DemandOvertakesWhatIsUnderWay) {
  submit(behind_, IoPriority::kBehind, 3);
  EXPECT_THAT(issue(1), ElementsAre(&behind_));
  submit(demand_, IoPriority::kDemand, 1);
  EXPECT_THAT(issue(3), ElementsAre(&demand_, &behind_, &behind_));
}

TEST_F(IoEngineOrder, EqualsKeepTheOrderOfTheirSubmission) {
  submit(ahead_, IoPriority::kAhead, 2);
  submit(other_, IoPriority::kAhead, 1);
  EXPECT_THAT(issue(3), ElementsAre(&ahead_, &ahead_, &other_));
}

TEST_F(IoEngineOrder, UrgentOperationsJoinTheDemands) {
  submit(ahead_, IoPriority::kAhead, 2);
  submit(behind_, IoPriority::kBehind, 1);
  submit(other_, IoPriority::kAhead, 2);
  EXPECT_THAT(issue(1), ElementsAre(&ahead_));
  other_.urgent = true;
  engine_.promote_urgent();
  EXPECT_THAT(issue(4), ElementsAre(&other_, &other_, &behind_, &ahead_));
}

TEST_F(IoEngineOrder, UrgentBeforeItsSubmissionIsUrgent) {
  submit(ahead_, IoPriority::kAhead, 1);
  behind_.urgent = true;
  submit(behind_, IoPriority::kBehind, 1);
  EXPECT_THAT(issue(2), ElementsAre(&behind_, &ahead_));
  engine_.poll();
  EXPECT_FALSE(behind_.urgent) << "the next use of it is not";
}

TEST_F(IoEngineOrder, TheRestOfAShortTransferGoesFirst) {
  submit(behind_, IoPriority::kBehind, 1);
  engine_.poll();
  engine_.answer(engine_.take_one(), 1);
  submit(demand_, IoPriority::kDemand, 1);
  EXPECT_THAT(issue(2), ElementsAre(&behind_, &demand_));
}

/// Requests of the default size, 4 MiB, whose memory is never touched.
class IoEngineBackground : public ScriptedFixture {
 protected:
  TestOp& submit(TestOp& op, IoPriority priority, std::uint64_t bytes) {
    op.priority = priority;
    op.set(IoKind::kRead, buffered_, room_.span().first(bytes), 0);
    engine_.submit(op);
    return op;
  }

  ScriptedEngine engine_{IoEngineOptions{}};
  Memory room_ = pages(40 * kMiB);
  TestOp demand_;
  TestOp ahead_;
  TestOp behind_;
};

TEST_F(IoEngineBackground, WaitsWhile32MiBAreInFlight) {
  submit(ahead_, IoPriority::kAhead, 40 * kMiB);
  submit(behind_, IoPriority::kBehind, 8 * kMiB);
  engine_.poll();
  std::vector<ScriptedEngine::Issued> held = engine_.take_issued();
  ASSERT_EQ(held.size(), 8U) << "of 4 MiB each";

  submit(demand_, IoPriority::kDemand, 8 * kMiB);
  engine_.poll();
  std::ranges::copy(engine_.take_issued(), std::back_inserter(held));
  EXPECT_EQ(held.size(), 10U) << "demand does not wait";

  engine_.answer(held[0], kMiB);
  engine_.answer(held[1], held[1].bytes);
  engine_.poll();
  const ScriptedEngine::Issued rest = engine_.take_one();
  EXPECT_EQ(rest.bytes, 3 * kMiB) << "35 MiB are in flight with it";
  engine_.answer(rest, rest.bytes);
  engine_.poll();
  EXPECT_TRUE(engine_.take_issued().empty()) << "32 MiB are";
  engine_.answer(held[2], held[2].bytes);
  engine_.poll();
  held[2] = engine_.take_one();
  for (std::size_t at = 2; at < held.size(); ++at) {
    engine_.answer(held[at], held[at].bytes);
  }
  engine_.poll();
  engine_.answer_all();
  engine_.poll();
  EXPECT_TRUE(engine_.idle());
}

/// What callbacks may do.
class IoEngineCallbacks : public ScriptedFixture {
 protected:
  IoEngineCallbacks() : ScriptedFixture(2) {}
};

struct ChainOp : TestOp {
  IoEngine* engine = nullptr;
  int left = 0;
};

TEST_F(IoEngineCallbacks, WhatTheySubmitIsIssuedBeforePollReturns) {
  ChainOp op;
  op.engine = &engine_;
  op.left = 100;
  op.on_complete = [](IoOp& done) noexcept {
    auto& chain = static_cast<ChainOp&>(done);
    ++chain.calls;
    if (chain.left-- != 0) {
      chain.engine->submit(chain);
    }
  };
  submit(op, IoKind::kRead, kBlock);
  engine_.poll();
  for (int round = 0; round < 101; ++round) {
    engine_.answer(engine_.take_one(), kBlock);
    engine_.poll();
  }
  EXPECT_EQ(op.calls, 101);
  EXPECT_TRUE(engine_.idle());
}

TEST_F(IoEngineCallbacks, NothingSubmittedInOneCompletesInTheSamePoll) {
  ChainOp op;
  op.engine = &engine_;
  op.left = 3;
  op.on_complete = [](IoOp& done) noexcept {
    auto& chain = static_cast<ChainOp&>(done);
    ++chain.calls;
    if (chain.left-- != 0) {
      chain.engine->submit(chain);
    }
  };
  submit(op, IoKind::kRead, 0);
  EXPECT_EQ(engine_.poll(), 4U) << "no later poll would issue it";
  EXPECT_TRUE(engine_.idle());
}

TEST_F(IoEngineCallbacks, MayDestroyTheirOperation) {
  auto* const op = new TestOp;
  op->on_complete = [](IoOp& done) noexcept { delete &static_cast<TestOp&>(done); };
  submit(*op, IoKind::kRead, 3 * kBlock);
  engine_.poll();
  engine_.answer_all();
  engine_.poll();
  engine_.answer_all();
  EXPECT_EQ(engine_.poll(), 1U);
}

TEST_F(IoEngineCallbacks, MayCancelAnother) {
  struct Canceller : TestOp {
    IoEngine* engine = nullptr;
    IoOp* victim = nullptr;
  };
  TestOp victim;
  Canceller op;
  op.engine = &engine_;
  op.victim = &victim;
  op.on_complete = [](IoOp& done) noexcept {
    auto& canceller = static_cast<Canceller&>(done);
    canceller.engine->cancel(*canceller.victim);
  };
  submit(op, IoKind::kRead, 2 * kBlock);
  submit(victim, IoKind::kRead, 9 * kBlock);
  engine_.poll();
  engine_.answer_all();
  engine_.poll();  // the victim's first pieces were issued before the callback
  EXPECT_EQ(victim.calls, 0);
  engine_.answer_all();
  engine_.poll();
  EXPECT_EQ(victim.calls, 1);
  EXPECT_EQ(victim.error, ECANCELED);
}

TEST_F(IoEngineCallbacks, SeeTheirOperationCounted) {
  TestOp op;
  submit(op, IoKind::kRead, kBlock);
  engine_.poll();
  engine_.answer_all();
  engine_.advance();
  EXPECT_EQ(engine_.stats().read_ops, 1U);
  EXPECT_EQ(op.calls, 0);
  EXPECT_EQ(engine_.deliver(), 1U);
  EXPECT_EQ(op.calls, 1);
}

}  // namespace
}  // namespace penstock
