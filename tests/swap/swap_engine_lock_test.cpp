// What takes long happens without the engine's lock: while memory is sought for one tensor, others
// are used.

#include <atomic>
#include <future>

#include "tests/alloc/refusing_source.h"
#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;

class SwapEngineLockTest : public EngineFixture {
 protected:
  static constexpr std::uint64_t kBytes = 4 * kMiB;
  static constexpr std::uint64_t kOtherBytes = kMiB;

  void SetUp() override { pageable_ = memory_; }
  /// The next time that memory for the tensor is asked for, `meanwhile` runs on another thread,
  /// and has this long to end.
  void while_memory_is_sought(std::function<void()> meanwhile, std::chrono::seconds limit = 10s) {
    sought_ = false;
    memory_->watch([this, limit, meanwhile = std::move(meanwhile)](std::uint64_t bytes) {
      if (bytes != kBytes || sought_.exchange(true)) {
        return;
      }
      elsewhere_ = std::async(std::launch::async, meanwhile);
      in_time_ = elsewhere_.wait_for(limit) == std::future_status::ready;
    });
  }
  void expect_in_time() {
    memory_->watch({});
    EXPECT_TRUE(sought_) << "no memory was asked for";
    EXPECT_TRUE(in_time_) << "others had to wait";
    if (elsewhere_.valid()) {
      elsewhere_.get();
    }
  }
  void use_other() {
    expect_content(other_, content(kOtherBytes, 9));
    put(other_, content(kOtherBytes, 9));
  }
  /// On a drive that takes one content of the tensor and the other one's, and not a second.
  void open_full(std::uint64_t ram_bytes) {
    EngineConfig config;
    config.tensors = {{"t", {}, {}, Place::kClass, {}}, {"other", {}, {}, Place::kClass, {}}};
    open(16 * kMiB, ram_bytes, config);
    const PathConfig small{directory_.path(), std::nullopt, kBytes + 3 * kOtherBytes};
    space_ = engine_->open_namespace("small", {small}).value();
    tensor_ = declare("t", kBytes);
    other_ = declare("other", kOtherBytes);
    put(tensor_, content(kBytes, 1));
    put(other_, content(kOtherBytes, 9));
  }
  /// The content of the tensor is in memory, because its drive had no room for it.
  void open_unwritten() {
    open_full(0);
    EXPECT_TRUE(commit(tensor_, content(kBytes, 2)).wait().has_error());
  }
  void open_reopened(std::uint64_t ram_bytes) {
    EngineConfig config;
    config.mode = StoreMode::kDurable;
    open(16 * kMiB, 0, config);
    put(declare("t", kBytes), content(kBytes, 1));
    put(declare("other", kOtherBytes), content(kOtherBytes, 9));
    ASSERT_TRUE(engine_->close().has_value());
    config.tensors = {{"t", {}, {}, Place::kRam, {}}};
    open(16 * kMiB, ram_bytes, config);
    tensor_ = engine_->find(space_, "t").value();
    other_ = engine_->find(space_, "other").value();
    ASSERT_TRUE(engine_->plan().has_value());
    ASSERT_EQ(engine_->state(tensor_)->place, Place::kRam);
  }

  std::shared_ptr<RefusingSource> memory_ = std::make_shared<RefusingSource>();
  std::atomic<bool> sought_{false};
  std::atomic<bool> in_time_{false};
  std::future<void> elsewhere_;
  TensorId tensor_{};
  TensorId other_{};
};

TEST_F(SwapEngineLockTest, OthersAreUsedWhileACopyIsLent) {
  open_unwritten();
  while_memory_is_sought([this] { use_other(); });
  const Lease lease = engine_->get(tensor_, Access::kUpdate).lease().value();
  expect_in_time();
  EXPECT_EQ(std::memcmp(lease.data(), content(kBytes, 2).data(), kBytes), 0);
}

TEST_F(SwapEngineLockTest, OthersAreUsedWhileAContentMovesToRam) {
  open_full(kBytes);
  while_memory_is_sought([this] { use_other(); });
  put(tensor_, content(kBytes, 2));
  expect_in_time();
  EXPECT_TRUE(engine_->state(tensor_)->resident);
  expect_content(tensor_, content(kBytes, 2));
}

TEST_F(SwapEngineLockTest, OthersAreUsedWhileAResidentIsReadAhead) {
  open_reopened(kBytes + kOtherBytes);
  while_memory_is_sought([this] { use_other(); });
  engine_->prefetch(std::vector{tensor_});
  expect_in_time();
  expect_content(tensor_, content(kBytes, 1));
  EXPECT_TRUE(engine_->state(tensor_)->resident);
  EXPECT_EQ(engine_->stats().misses, 1U) << "the other one alone";
}

TEST_F(SwapEngineLockTest, AGetWaitsForTheReadAheadWhoseMemoryIsSought) {
  open_reopened(kBytes);
  Ticket waiting;
  while_memory_is_sought([&] { waiting = engine_->get(tensor_); });
  engine_->prefetch(std::vector{tensor_});
  expect_in_time();
  const Lease lease = waiting.lease().value();
  EXPECT_EQ(std::memcmp(lease.data(), content(kBytes, 1).data(), kBytes), 0);
  EXPECT_EQ(engine_->stats().late, 1U);
}

TEST_F(SwapEngineLockTest, AReadAheadWithoutMemoryLeavesGetsTheirOwnTry) {
  open_reopened(kBytes);
  Ticket waiting;
  while_memory_is_sought([&] {
    waiting = engine_->get(tensor_);
    memory_->refuse_nothing();
  });
  memory_->refuse(kBytes);
  engine_->prefetch(std::vector{tensor_});
  expect_in_time();
  const Lease lease = waiting.lease().value();
  EXPECT_EQ(std::memcmp(lease.data(), content(kBytes, 1).data(), kBytes), 0);
}

TEST_F(SwapEngineLockTest, ATensorMayBeForgottenMeanwhile) {
  open_unwritten();
  while_memory_is_sought([this] { EXPECT_TRUE(engine_->forget(tensor_).has_value()); });
  const Result<Lease> lease = engine_->get(tensor_, Access::kUpdate).lease();
  expect_in_time();
  ASSERT_TRUE(lease.has_error());
  EXPECT_EQ(lease.error().code, make_error_code(Fault::kUnknownTensor)) << lease.error().message;

  open_full(kBytes);
  while_memory_is_sought([this] { EXPECT_TRUE(engine_->forget(tensor_).has_value()); });
  EXPECT_TRUE(engine_->put(tensor_, content(kBytes, 2)).wait().has_error());
  expect_in_time();
  EXPECT_EQ(engine_->stats().resident_bytes, 0U);

  open_reopened(kBytes);
  while_memory_is_sought([this] { EXPECT_TRUE(engine_->forget(tensor_).has_value()); });
  engine_->prefetch(std::vector{tensor_});
  expect_in_time();
  EXPECT_EQ(engine_->stats().resident_bytes, 0U);
  EXPECT_EQ(engine_->stats().lookahead_bytes, 0U);
  EXPECT_TRUE(engine_->close().has_value());
}

TEST_F(SwapEngineLockTest, ANewerCommitMeanwhileIsWhatCounts) {
  open_unwritten();
  while_memory_is_sought([this] { (void)commit(tensor_, content(kBytes, 3)).wait(); });
  {
    const Lease lease = engine_->get(tensor_, Access::kUpdate).lease().value();
    expect_in_time();
    EXPECT_EQ(std::memcmp(lease.data(), content(kBytes, 3).data(), kBytes), 0);
  }
  open_full(kBytes);
  while_memory_is_sought([this] { (void)commit(tensor_, content(kBytes, 3)).wait(); });
  (void)engine_->put(tensor_, content(kBytes, 2)).wait();
  expect_in_time();
  expect_content(tensor_, content(kBytes, 3));

  open_reopened(kBytes);
  while_memory_is_sought([this] { put(tensor_, content(kBytes, 3)); });
  engine_->prefetch(std::vector{tensor_});
  expect_in_time();
  expect_content(tensor_, content(kBytes, 3));
}

TEST_F(SwapEngineLockTest, CloseWaitsForWhatSeeksMemory) {
  for (const bool copies : {true, false}) {
    if (copies) {
      open_unwritten();
    } else {
      open_reopened(kBytes);
    }
    while_memory_is_sought([this] { (void)engine_->close(); }, 0s);
    if (copies) {
      (void)engine_->get(tensor_, Access::kUpdate).wait();
    } else {
      engine_->prefetch(std::vector{tensor_});
    }
    memory_->watch({});
    elsewhere_.get();
  }
}

}  // namespace
}  // namespace penstock
