#include <gtest/gtest.h>

#include "alloc/bytes.h"
#include "io/sim_disk.h"
#include "io/sim_engine.h"
#include "swap/swap_engine.h"
#include "tests/alloc/random_bytes.h"

namespace penstock {
namespace {

/// Writes of one tensor that overlap, over a simulated drive: nothing moves until somebody waits.
class SwapEngineOverlapTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 8 * kKiB;

  void SetUp() override {
    SwapEngineOptions options;
    Budgets budgets;
    budgets.max_pinned_bytes = 8 * kMiB;
    budgets.ram_bytes = kBytes;
    budgets.max_pinned_given = true;
    budgets.ram_given = true;
    budgets.quarter_bytes = 64 * kMiB;
    options.budgets = budgets;
    // Never a resident by plan: only where the drive is full.
    options.config.tensors = {{"t", {}, {}, Place::kClass, {}}};
    options.file_system = &disk_;
    options.warn = [](const Warning&) {};
    options.make_queue = [this](const IoEngineOptions& io) -> Result<std::unique_ptr<IoQueue>> {
      return IoQueue::start_for_caller(make_sim_engine(disk_, io));
    };
    engine_ = SwapEngine::open(std::move(options)).value();
    const NamespaceId space =
        engine_->open_namespace("sim", {{"/sim", std::nullopt, std::nullopt}}).value();
    tensor_ = engine_->declare(space, {"t", DType::kU8, {kBytes}, Role::kParam}).value();
  }
  Ticket put(const std::vector<std::byte>& content) { return engine_->put(tensor_, content); }
  Ticket commit(const std::vector<std::byte>& content) {
    Lease lease = engine_->allocate(tensor_).value();
    std::memcpy(lease.data(), content.data(), content.size());
    return engine_->commit(lease);
  }
  void fail_writes(bool fail) {
    std::array<double, kSimFaults> rates{};
    rates[static_cast<std::size_t>(SimFault::kWriteError)] = fail ? 1.0 : 0.0;
    disk_.set_rates(rates);
  }

  // Little room, so that no file grows in advance.
  static constexpr std::uint64_t kCapacityBytes = 256 * kKiB;
  SimDisk disk_{{1, kCapacityBytes, {}}};
  std::unique_ptr<SwapEngine> engine_;
  TensorId tensor_{};
};

// A full drive and a failing one at once: what was kept in RAM has succeeded.
TEST_F(SwapEngineOverlapTest, WhatRamKeptOutlivesOlderAndNewerPutsThatFail) {
  std::vector<std::vector<std::byte>> contents;
  for (unsigned i = 0; i < 5; ++i) {
    contents.push_back(random_bytes(kBytes, i));
  }
  ASSERT_TRUE(put(contents[0]).wait().has_value());
  const Ticket second = commit(contents[1]);
  const Ticket third = put(contents[2]);
  disk_.set_capacity_bytes(disk_.used_bytes());
  const Ticket fourth = put(contents[3]);
  ASSERT_TRUE(fourth.done()) << "kept in RAM";
  ASSERT_TRUE(fourth.wait().has_value()) << fourth.wait().error().message;
  disk_.set_capacity_bytes(kCapacityBytes);
  const Ticket fifth = put(contents[4]);
  fail_writes(true);
  EXPECT_TRUE(second.wait().has_error());
  EXPECT_TRUE(third.wait().has_error());
  EXPECT_TRUE(fifth.wait().has_error());
  fail_writes(false);
  const Lease lease = engine_->get(tensor_).lease().value();
  EXPECT_EQ(std::memcmp(lease.data(), contents[3].data(), kBytes), 0);
}

}  // namespace
}  // namespace penstock
