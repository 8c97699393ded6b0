#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "swap/store/durable_store.h"
#include "tests/alloc/same_bytes.h"
#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

/// Engines over one durable store, one after another.
class SwapEngineDurableTest : public EngineFixture {
 protected:
  void open_durable(std::uint64_t ram_bytes = 0, std::vector<PathConfig> paths = {}) {
    engine_.reset();
    EngineConfig config;
    config.mode = StoreMode::kDurable;
    open(8 * kMiB, ram_bytes, config);
    if (!paths.empty()) {
      ASSERT_TRUE(engine_->close_namespace(space_).has_value());
      space_ = engine_->open_namespace("test", std::move(paths)).value();
    }
  }
  TensorId find(const std::string& name) {
    const std::optional<TensorId> found = engine_->find(space_, name);
    EXPECT_TRUE(found) << name;
    return found.value_or(TensorId{});
  }
};

TEST_F(SwapEngineDurableTest, ContentsAreThereAgainWithoutBeingCopied) {
  open_durable();
  for (std::size_t i = 0; i < 12; ++i) {
    put(declare(numbered(i), 100'000 + i), content(100'000 + i, static_cast<unsigned>(i)));
  }
  open_durable();
  EXPECT_EQ(engine_->stats().io.read_bytes, 0U);
  EXPECT_EQ(engine_->tensors(space_).size(), 12U);
  EXPECT_EQ(engine_->info(engine_->tensors(space_)[2]).value()->name, "t2") << "before t10";
  for (std::size_t i = 0; i < 12; ++i) {
    expect_content(find(numbered(i)), content(100'000 + i, static_cast<unsigned>(i)));
  }
  EXPECT_EQ(engine_->stats().io.write_bytes, 0U);
}

TEST_F(SwapEngineDurableTest, GenerationsGoOn) {
  open_durable();
  const TensorId tensor = declare("a", kMiB);
  put(tensor, content(kMiB, 1));
  put(tensor, content(kMiB, 2));
  open_durable();
  EXPECT_EQ(engine_->state(find("a")).value().generation, 2U);
  put(find("a"), content(kMiB, 3));
  EXPECT_EQ(engine_->state(find("a")).value().generation, 3U);
  open_durable();
  expect_content(find("a"), content(kMiB, 3));
}

TEST_F(SwapEngineDurableTest, ResidentsAreWrittenToo) {
  open_durable(16 * kMiB);
  const TensorId tensor = declare("a", kMiB);
  put(tensor, content(kMiB, 1));
  ASSERT_TRUE(commit(tensor, content(kMiB, 2)).wait());
  EXPECT_TRUE(engine_->state(tensor).value().resident);
  EXPECT_TRUE(engine_->state(tensor).value().on_drive);
  ASSERT_TRUE(engine_->flush());
  EXPECT_GT(engine_->stats().publishes, 0U);
  EXPECT_GT(engine_->stats().journal_bytes, 0U);
  open_durable();
  expect_content(find("a"), content(kMiB, 2));
}

TEST_F(SwapEngineDurableTest, ForgottenAndRenamedWithTheNextFlush) {
  open_durable();
  put(declare("gone", 100), content(100, 1));
  const TensorId renamed = declare("before", 100);
  put(renamed, content(100, 2));
  ASSERT_TRUE(engine_->flush());
  ASSERT_TRUE(engine_->forget(find("gone")));
  ASSERT_TRUE(engine_->rename(renamed, "after"));
  open_durable();
  EXPECT_EQ(engine_->tensors(space_).size(), 1U);
  expect_content(find("after"), content(100, 2));
}

TEST_F(SwapEngineDurableTest, AnotherEngineLearnsWhoHasTheStore) {
  open_durable();
  const auto second = engine_->open_namespace("again", {{directory_.path(), {}, {}}});
  ASSERT_TRUE(second.has_error());
  EXPECT_EQ(second.error().system_errno(), EBUSY);
  EXPECT_THAT(second.error().message, HasSubstr("process "));
  ASSERT_TRUE(engine_->close_namespace(space_));
  EXPECT_TRUE(engine_->open_namespace("again", {{directory_.path(), {}, {}}}));
}

TEST_F(SwapEngineDurableTest, WhatOnlyMemoryHasIsSaidUntilItIsOnADrive) {
  PathConfig small{directory_ / "small", std::nullopt, 5 * kMiB};
  open_durable(16 * kMiB, {small});
  const TensorId a = declare("a", 4 * kMiB);
  const TensorId b = declare("b", 4 * kMiB);
  put(a, content(4 * kMiB, 1));
  put(b, content(4 * kMiB, 2));  // no room: kept in RAM
  EXPECT_FALSE(warnings_.empty());
  for (int i = 0; i < 2; ++i) {
    const Result<void> flushed = engine_->flush();
    ASSERT_TRUE(flushed.has_error());
    EXPECT_EQ(flushed.error().system_errno(), ENOSPC);
    EXPECT_EQ(flushed.error().tensor, "b");
    EXPECT_THAT(flushed.error().message, HasSubstr("in memory only"));
  }
  expect_content(b, content(4 * kMiB, 2));
  ASSERT_TRUE(engine_->forget(a));
  EXPECT_TRUE(engine_->flush().has_value()) << "its room is free with the first publish";
}

TEST_F(SwapEngineDurableTest, OfALostPathEachTensorSaysSo) {
  const std::vector<PathConfig> paths{{directory_ / "home", {}, {}},
                                      {directory_ / "other", {}, {}}};
  open_durable(0, paths);
  for (std::size_t i = 0; i < 4; ++i) {
    put(declare(numbered(i), 5000), content(5000, static_cast<unsigned>(i)));
  }
  engine_.reset();
  std::filesystem::remove_all(directory_ / "other");
  warnings_.clear();
  open_durable(0, {paths.front()});
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_.front(), HasSubstr("2 tensors"));
  int lost = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const Result<Lease> lease = engine_->get(find(numbered(i))).lease();
    std::vector<std::byte> into(5000);
    EXPECT_EQ(engine_->get_into(find(numbered(i)), into).wait().has_value(), lease.has_value());
    if (lease.has_error()) {
      ++lost;
      EXPECT_EQ(lease.error().tensor, numbered(i));
      EXPECT_THAT(lease.error().path, HasSubstr(directory_ / "other"));
      put(find(numbered(i)), content(5000, 70));
      expect_content(find(numbered(i)), content(5000, 70));
    } else {
      expect_content(find(numbered(i)), content(5000, static_cast<unsigned>(i)));
    }
  }
  EXPECT_EQ(lost, 2);
  warnings_.clear();
  open_durable(0, {paths.front()});
  EXPECT_THAT(warnings_, testing::IsEmpty()) << "nothing lies there any more";
}

TEST_F(SwapEngineDurableTest, WhatIsPutWhileTheNamespaceClosesIsThereOrRefused) {
  for (unsigned round = 0; round < 20; ++round) {
    open_durable();
    const std::string name = numbered(round);
    const TensorId tensor = declare(name, kMiB);
    const std::vector<std::vector<std::byte>> contents{content(kMiB, 1), content(kMiB, 2)};
    put(tensor, contents[0]);
    std::size_t last = 0;
    std::thread putting([&] {
      for (std::size_t next = 1; engine_->put(tensor, contents[next % 2]).wait(); ++next) {
        last = next;
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2 + round));
    ASSERT_TRUE(engine_->close_namespace(space_).has_value());
    putting.join();
    open_durable();
    const Lease lease = engine_->get(find(name)).lease().value();
    EXPECT_TRUE(same_bytes(lease.span(), contents[last % 2])) << "round " << round;
  }
}

TEST_F(SwapEngineDurableTest, EmptyTensorsStayInTheStore) {
  DurableStoreOptions options;
  options.directory = directory_.path();
  {
    auto store = DurableStore::open(options).value();
    const StoredTensor stored = store->reserve(store->number_tensor(), 1, 0).value();
    ASSERT_TRUE(store->stage({"empty", DType::kF32, {0}, Role::kParam}, store->hold(stored)));
    ASSERT_TRUE(store->close());
  }
  open_durable();
  EXPECT_FALSE(engine_->find(space_, "empty"));
  engine_.reset();
  EXPECT_TRUE(DurableStore::open(options).value()->find("empty"));
}

}  // namespace
}  // namespace penstock
