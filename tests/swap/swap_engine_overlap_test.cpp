#include "tests/alloc/random_bytes.h"
#include "tests/swap/sim_engine_fixture.h"

namespace penstock {
namespace {

/// Writes of one tensor that overlap.
class SwapEngineOverlapTest : public SimEngineFixture {
 protected:
  static constexpr std::uint64_t kBytes = 8 * kKiB;
  // So little room that no file grows in advance: by an eighth of what is free at most.
  static constexpr std::uint64_t kCapacityBytes = 96 * kKiB;

  SwapEngineOverlapTest() : SimEngineFixture(kCapacityBytes) {}

  void SetUp() override {
    EngineConfig config;
    // Never a resident by plan: only where the drive is full.
    config.tensors = {{"t", {}, {}, Place::kClass, {}}};
    open(8 * kMiB, kBytes, std::move(config));
    tensor_ = declare("t", kBytes);
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

// A content that was written in parts is published while an older one is read.
TEST_F(SwapEngineOverlapTest, WhatIsPublishedDuringAReadOfTheOlderIsRead) {
  const std::vector<std::byte> older = random_bytes(kBytes, 0);
  const std::vector<std::byte> newer = random_bytes(kBytes, 1);
  const std::vector<std::byte> lost = random_bytes(kBytes, 2);
  ASSERT_TRUE(put(older).wait().has_value());
  ContentWriter writer = engine_->write().value();
  ASSERT_TRUE(writer.begin(tensor_).has_value());
  ASSERT_TRUE(writer.append(newer).has_value());
  ASSERT_TRUE(writer.end().has_value());
  ASSERT_TRUE(writer.drain().has_value());
  fail_writes(true);
  ASSERT_TRUE(put(lost).wait().has_error()) << "so that the published one is not the newest begun";
  fail_writes(false);
  const Ticket read = engine_->get(tensor_);
  ASSERT_FALSE(read.done());
  ASSERT_TRUE(writer.publish().has_value());
  for (int turn = 0; turn < 2; ++turn) {
    const Lease lease = (turn == 0 ? read : engine_->get(tensor_)).lease().value();
    EXPECT_EQ(std::memcmp(lease.data(), newer.data(), kBytes), 0) << "turn " << turn;
  }
}

}  // namespace
}  // namespace penstock
