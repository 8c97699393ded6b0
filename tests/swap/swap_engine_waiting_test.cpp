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

  std::vector<TensorId> tensors_;
};

TEST_F(SwapEngineWaitingTest, AWaitForMemoryThatAWriteHoldsIsAStall) {
  const auto written = [this](TensorId tensor) {
    const Lease lease = engine_->allocate(tensor).value();
    return engine_->commit(lease);
  };
  const Ticket first = written(tensors_[0]);
  EXPECT_EQ(engine_->stats().stall_ns, 0U) << "the slot was free";
  const Ticket second = written(tensors_[1]);
  EXPECT_EQ(engine_->stats().pool.waits, 1U);
  const std::uint64_t stalled = engine_->stats().stall_ns;
  EXPECT_GT(stalled, 0U);
  ASSERT_TRUE(first.wait().has_value());
  ASSERT_TRUE(second.wait().has_value());
  EXPECT_EQ(engine_->stats().stall_ns, stalled) << "to wait for a write is none";
}

}  // namespace
}  // namespace penstock
