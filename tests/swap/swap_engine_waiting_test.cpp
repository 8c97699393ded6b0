#include <algorithm>
#include <vector>

#include "tests/swap/sim_engine_fixture.h"

namespace penstock {
namespace {

/// One slot for two tensors.
class SwapEngineWaitingTest : public SimEngineFixture {
 protected:
  static constexpr std::uint64_t kBytes = 4 * kMiB;

  SwapEngineWaitingTest() : SimEngineFixture(kGiB) {}

  void SetUp() override {
    open(kBytes + 4 * kMiB, 0);  // and what transfers need
    tensors_ = {declare("a", kBytes), declare("b", kBytes)};
    ASSERT_TRUE(engine_->plan().has_value());
  }

  Ticket write(TensorId tensor, unsigned char byte) {
    const Lease lease = engine_->allocate(tensor).value();
    std::ranges::fill(lease.span(), std::byte{byte});
    return engine_->commit(lease);
  }
  /// Both have contents, and a write of the first has the slot.
  Ticket write_both_and_the_first_again() {
    EXPECT_TRUE(write(tensors_[0], 1).wait().has_value());
    EXPECT_TRUE(write(tensors_[1], 2).wait().has_value());
    return write(tensors_[0], 3);
  }

  std::vector<TensorId> tensors_;
};

TEST_F(SwapEngineWaitingTest, AWaitForMemoryThatAWriteHoldsIsAStall) {
  const Ticket first = write(tensors_[0], 1);
  EXPECT_EQ(engine_->stats().stall_ns, 0U) << "the slot was free";
  const Ticket second = write(tensors_[1], 2);
  EXPECT_EQ(engine_->stats().pool.waits, 1U);
  const std::uint64_t stalled = engine_->stats().stall_ns;
  EXPECT_GT(stalled, 0U);
  ASSERT_TRUE(first.wait().has_value());
  ASSERT_TRUE(second.wait().has_value());
  EXPECT_EQ(engine_->stats().stall_ns, stalled) << "to wait for a write is none";
}

TEST_F(SwapEngineWaitingTest, AGetNeverWaitsAndIsReadWhenMemoryComesBack) {
  const Ticket writing = write_both_and_the_first_again();
  const SwapStats before = engine_->stats();
  const Ticket read = engine_->get(tensors_[1]);
  EXPECT_EQ(engine_->stats().stall_ns, before.stall_ns) << "nothing has moved";
  EXPECT_EQ(engine_->stats().tensor_read_bytes, before.tensor_read_bytes);
  EXPECT_EQ(engine_->stats().pool.waits, before.pool.waits + 1);
  EXPECT_FALSE(writing.done());
  const Lease lease = read.lease().value();
  EXPECT_EQ(std::ranges::count(lease.span(), std::byte{2}), kBytes);
  EXPECT_TRUE(writing.done()) << "its slot was what the read waited for";
  const SwapStats after = engine_->stats();
  EXPECT_GT(after.stall_ns, before.stall_ns) << "the wait is counted";
  EXPECT_EQ(after.pool.overflow_bytes_max, before.pool.overflow_bytes_max) << "in the slot";
  EXPECT_EQ(after.pool.waits, before.pool.waits + 1) << "once";
}

TEST_F(SwapEngineWaitingTest, GetsThatWaitForMemoryAreServedInTheirOrder) {
  const Ticket writing = write_both_and_the_first_again();
  const Ticket first = engine_->get(tensors_[1]);
  ASSERT_TRUE(writing.wait().has_value());
  const Ticket second = engine_->get(tensors_[0]);
  EXPECT_EQ(std::ranges::count(first.lease().value().span(), std::byte{2}), kBytes);
  EXPECT_EQ(std::ranges::count(second.lease().value().span(), std::byte{3}), kBytes);
}

TEST_F(SwapEngineWaitingTest, AGetThatWaitsForMemoryEndsWithTheEngine) {
  const Ticket writing = write_both_and_the_first_again();
  const Ticket read = engine_->get(tensors_[1]);
  EXPECT_FALSE(read.done());
  EXPECT_TRUE(engine_->close().has_value());
  ASSERT_TRUE(read.done());
  EXPECT_TRUE(writing.done());
}

TEST_F(SwapEngineWaitingTest, ATensorIsForgottenWhileItsGetWaitsForMemory) {
  const Ticket writing = write_both_and_the_first_again();
  const Ticket read = engine_->get(tensors_[1]);
  EXPECT_TRUE(engine_->forget(tensors_[1]).has_value());
  EXPECT_TRUE(writing.wait().has_value());
  EXPECT_FALSE(read.wait().has_value());
  EXPECT_TRUE(engine_->close().has_value());
}

}  // namespace
}  // namespace penstock
