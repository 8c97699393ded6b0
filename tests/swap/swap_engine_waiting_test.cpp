#include <gtest/gtest.h>

#include "alloc/bytes.h"
#include "io/sim_disk.h"
#include "io/sim_engine.h"
#include "swap/swap_engine.h"

namespace penstock {
namespace {

/// One slot, over a simulated drive, on which nothing moves until a caller waits.
class SwapEngineWaitingTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 4 * kMiB;

  void SetUp() override {
    SwapEngineOptions options;
    Budgets budgets;
    budgets.max_pinned_bytes = kBytes + 4 * kMiB;  // and what transfers need
    budgets.max_pinned_given = true;
    budgets.ram_given = true;
    budgets.quarter_bytes = 64 * kMiB;
    options.budgets = budgets;
    options.file_system = &disk_;
    options.warn = [](const Warning&) {};
    options.make_queue = [this](const IoEngineOptions& io) -> Result<std::unique_ptr<IoQueue>> {
      return IoQueue::start_for_caller(make_sim_engine(disk_, io));
    };
    engine_ = SwapEngine::open(std::move(options)).value();
    const NamespaceId space =
        engine_->open_namespace("sim", {{"/sim", std::nullopt, std::nullopt}}).value();
    for (const char* name : {"a", "b"}) {
      tensors_.push_back(
          engine_->declare(space, {name, DType::kU8, {kBytes}, Role::kParam}).value());
    }
    ASSERT_TRUE(engine_->plan().has_value());
  }

  SimDisk disk_{{1, kGiB, {}}};
  std::unique_ptr<SwapEngine> engine_;
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
