#include "swap/swap_engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

class SwapEngineTest : public EngineFixture {};

TEST_F(SwapEngineTest, WhatWasPutComesBack) {
  open(16 * kMiB, 0);
  std::vector<TensorId> tensors;
  const std::vector<std::uint64_t> sizes{1,        4096,         kMiB,     2 * kMiB,
                                         2 * kMiB, 2 * kMiB + 1, 40 * kMiB};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    tensors.push_back(declare(numbered(i), sizes[i]));
    put(tensors.back(), content(sizes[i], static_cast<unsigned>(i)));
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      expect_content(tensors[i], content(sizes[i], static_cast<unsigned>(i)));
    }
  }
  EXPECT_GT(engine_->stats().io.read_bytes, 0u);
}

TEST_F(SwapEngineTest, TheNewestContentIsTheOneThatIsRead) {
  open(16 * kMiB, 0);
  const TensorId tensor = declare("t", 3 * kMiB);
  for (unsigned generation = 0; generation < 20; ++generation) {
    const auto data = content(3 * kMiB, generation);
    if (generation % 2 == 0) {
      commit(tensor, data);  // read back while its write is in flight
    } else {
      put(tensor, data);
    }
    expect_content(tensor, data);
  }
  ASSERT_TRUE(engine_->flush().has_value());
  expect_content(tensor, content(3 * kMiB, 19));
  EXPECT_EQ(engine_->state(tensor).value().generation, 20u);
  EXPECT_LE(engine_->stats().drive_bytes, 3 * kMiB + 4096) << "older generations must be given up";
}

TEST_F(SwapEngineTest, UpdateInPlaceAndCommit) {
  open(16 * kMiB, 0);
  const TensorId tensor = declare("t", kMiB);
  put(tensor, content(kMiB, 1));
  for (unsigned i = 2; i < 12; ++i) {
    Lease lease = engine_->get(tensor, Access::kUpdate).lease().value();
    const auto data = content(kMiB, i);
    std::memcpy(lease.data(), data.data(), data.size());
    engine_->commit(lease);
    lease.release();
    expect_content(tensor, data);
  }
}

TEST_F(SwapEngineTest, AnAbandonedUpdateIsNotTheContent) {
  open(16 * kMiB, 0);
  const TensorId tensor = declare("t", kMiB);
  put(tensor, content(kMiB, 1));
  {
    Lease lease = engine_->get(tensor, Access::kUpdate).lease().value();
    std::memset(lease.data(), 0, kMiB);
  }
  expect_content(tensor, content(kMiB, 1));
}

TEST_F(SwapEngineTest, AnAbandonedUpdateIsNotTheContentEvenWhileOthersLook) {
  open(16 * kMiB, 0);
  const TensorId tensor = declare("t", kMiB);
  put(tensor, content(kMiB, 1));
  const Lease reader = engine_->get(tensor).lease().value();
  const Ticket ticket = engine_->get(tensor, Access::kUpdate);
  {
    Lease lease = ticket.lease().value();
    EXPECT_EQ(ticket.lease().value().data(), lease.data()) << "shared while it lives";
    std::memset(lease.data(), 0, kMiB);
  }
  expect_content(tensor, content(kMiB, 1));
  EXPECT_TRUE(ticket.lease().has_error()) << "a ticket keeps no hold";
  EXPECT_EQ(std::memcmp(reader.data(), content(kMiB, 1).data(), kMiB), 0) << "a reader's stays";
}

TEST_F(SwapEngineTest, AnAbandonedUpdateOfAResidentIsReadAgainFromItsDrive) {
  open(8 * kMiB, 4 * kMiB);
  const TensorId first = declare("first", 3 * kMiB);
  put(first, content(3 * kMiB, 1));  // fills the RAM that there is for residents
  const TensorId tensor = declare("t", 2 * kMiB);
  put(tensor, content(2 * kMiB, 2));  // goes to the drive
  ASSERT_TRUE(engine_->forget(first).has_value());
  ASSERT_TRUE(engine_->plan().has_value());
  expect_content(tensor, content(2 * kMiB, 2));  // becomes a resident, and stays on the drive
  ASSERT_TRUE(engine_->state(tensor).value().resident);
  ASSERT_TRUE(engine_->state(tensor).value().on_drive);
  {
    Lease lease = engine_->get(tensor, Access::kUpdate).lease().value();
    std::memset(lease.data(), 0, lease.bytes());
  }
  expect_content(tensor, content(2 * kMiB, 2));
  EXPECT_TRUE(engine_->state(tensor).value().resident);
}

TEST_F(SwapEngineTest, ReadsIntoForeignMemoryAtAnyAddress) {
  open(16 * kMiB, 0);
  const TensorId tensor = declare("t", 3 * kMiB + 11);
  const auto data = content(3 * kMiB + 11, 5);
  put(tensor, data);
  std::vector<std::byte> target(data.size() + 1);
  const std::span<std::byte> inner = std::span(target).subspan(1);
  ASSERT_TRUE(engine_->get_into(tensor, inner).wait().has_value());
  EXPECT_EQ(std::memcmp(inner.data(), data.data(), data.size()), 0);
  EXPECT_EQ(engine_->stats().tensor_read_bytes, data.size());
  const Lease held = engine_->get(tensor).lease().value();  // now a copy from memory
  std::fill(target.begin(), target.end(), std::byte{0});
  ASSERT_TRUE(engine_->get_into(tensor, inner).wait().has_value());
  EXPECT_EQ(std::memcmp(inner.data(), data.data(), data.size()), 0);
}

TEST_F(SwapEngineTest, NamespacesDoNotSeeEachOther) {
  open(16 * kMiB, 0);
  const NamespaceId other =
      engine_->open_namespace("other", {{directory_.path(), std::nullopt, std::nullopt}}).value();
  const TensorId here = declare("t", kMiB);
  const TensorId there = engine_->declare(other, {"t", DType::kU8, {kMiB}, Role::kParam}).value();
  EXPECT_NE(here, there);
  put(here, content(kMiB, 1));
  put(there, content(kMiB, 2));
  expect_content(here, content(kMiB, 1));
  ASSERT_TRUE(engine_->close_namespace(other).has_value());
  EXPECT_EQ(engine_->get(there).wait().error().code, make_error_code(Fault::kUnknownTensor));
  expect_content(here, content(kMiB, 1));
  EXPECT_LE(engine_->stats().drive_bytes, kMiB + 4096);
}

TEST_F(SwapEngineTest, LeasesOutliveEverything) {
  open(16 * kMiB, 0);
  const TensorId tensor = declare("t", kMiB);
  put(tensor, content(kMiB, 3));
  const Lease lease = engine_->get(tensor).lease().value();
  ASSERT_TRUE(engine_->forget(tensor).has_value());
  engine_.reset();
  EXPECT_EQ(std::memcmp(lease.data(), content(kMiB, 3).data(), kMiB), 0);
}

TEST_F(SwapEngineTest, NothingIsLeftOnDisk) {
  open(16 * kMiB, 0);
  put(declare("t", kMiB), content(kMiB, 3));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path())) << "files have no names while in use";
  engine_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(SwapEngineTest, CallbacksMayUseTheEngine) {
  open(16 * kMiB, 0);
  const TensorId a = declare("a", kMiB);
  const TensorId b = declare("b", kMiB);
  put(a, content(kMiB, 1));
  put(b, content(kMiB, 2));
  std::promise<bool> same;
  engine_->get(a).then([&](const Ticket&) {
    engine_->get(b).then([&](const Ticket& done) {
      same.set_value(std::memcmp(done.lease().value().data(), content(kMiB, 2).data(), kMiB) == 0);
    });
  });
  EXPECT_TRUE(same.get_future().get());
}

TEST_F(SwapEngineTest, RenamedTensorsAreFoundByTheirNewName) {
  open(16 * kMiB, 0);
  const TensorId a = declare("a", kMiB);
  declare("b", kMiB);
  ASSERT_TRUE(engine_->rename(a, "model.a").has_value());
  EXPECT_EQ(engine_->find(space_, "model.a"), a);
  EXPECT_EQ(engine_->find(space_, "a"), std::nullopt);
  EXPECT_TRUE(engine_->rename(a, "b").has_error());
  EXPECT_TRUE(engine_->rename(a, "model.a").has_value());
}

TEST_F(SwapEngineTest, CallersMistakesAreErrorsThatSayWhich) {
  open(16 * kMiB, 0);
  const TensorId tensor = declare("t", kMiB);
  const auto code = [](const Ticket& ticket) { return ticket.wait().error().code; };
  EXPECT_EQ(code(engine_->get(tensor)), make_error_code(Fault::kInvalidArgument))
      << "no content yet";
  EXPECT_EQ(code(engine_->get(TensorId{999})), make_error_code(Fault::kUnknownTensor));
  EXPECT_EQ(code(engine_->put(tensor, content(7, 1))), make_error_code(Fault::kWrongSize));
  EXPECT_EQ(code(engine_->commit(Lease())), make_error_code(Fault::kInvalidArgument));
  std::vector<std::byte> small(3);
  put(tensor, content(kMiB, 1));
  EXPECT_EQ(code(engine_->get_into(tensor, small)), make_error_code(Fault::kWrongSize));
  EXPECT_TRUE(engine_->declare(space_, {"t", DType::kU8, {5}, Role::kParam}).has_error());
  EXPECT_TRUE(engine_->declare(space_, {"empty", DType::kU8, {0}, Role::kParam}).has_error());
  EXPECT_TRUE(engine_->declare(NamespaceId{99}, {"x", DType::kU8, {5}, Role::kParam}).has_error());
  ASSERT_TRUE(engine_->close().has_value());
  ASSERT_TRUE(engine_->close().has_value());
  EXPECT_EQ(code(engine_->get(tensor)), make_error_code(Fault::kClosed));
  EXPECT_EQ(engine_->allocate(tensor).error().code, make_error_code(Fault::kClosed));
  EXPECT_EQ(code(engine_->put(tensor, content(kMiB, 1))), make_error_code(Fault::kClosed));
}

TEST_F(SwapEngineTest, PrefetchedTensorsAreThereWhenAskedFor) {
  open(16 * kMiB, 0);
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 4; ++i) {
    tensors.push_back(declare(numbered(i), kMiB));
    put(tensors.back(), content(kMiB, i));
  }
  ASSERT_TRUE(engine_->plan().has_value());
  engine_->prefetch(tensors);
  for (unsigned i = 0; i < 4; ++i) {
    expect_content(tensors[i], content(kMiB, i));
  }
  EXPECT_EQ(engine_->stats().misses, 0u);
  EXPECT_EQ(engine_->stats().hits + engine_->stats().late, 4u);
}

TEST_F(SwapEngineTest, LearnsTheOrderAndReadsAhead) {
  open(8 * kMiB, 0);
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 32; ++i) {
    tensors.push_back(declare(numbered(i), kMiB));
    put(tensors.back(), content(kMiB, i));
  }
  for (int step = 0; step < 5; ++step) {
    for (unsigned i = 0; i < 32; ++i) {
      expect_content(tensors[i], content(kMiB, i));
    }
  }
  const SwapStats stats = engine_->stats();
  // The first step is on demand; from the second on at most its beginning is.
  EXPECT_LE(stats.misses, 32u + 8u);
  EXPECT_GE(stats.predicted, 4u * 32u - 8u);
  EXPECT_LE(stats.pool.pinned_bytes, 8 * kMiB);
  EXPECT_LE(stats.tensor_read_bytes, (5u * 32u + 16u) * kMiB)
      << "nothing is read twice for one use";
}

}  // namespace
}  // namespace penstock
