// Memory that is not to be had for a transfer: an error of that one operation, and nothing else.

#include <gmock/gmock.h>

#include <set>

#include "swap/transfer/host_transfer.h"
#include "tests/alloc/refusing_source.h"
#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

class SwapEngineScarcityTest : public EngineFixture {
 protected:
  static constexpr std::uint64_t kBytes = 2 * kMiB + 100;

  void SetUp() override { pageable_ = memory_; }

  /// A durable store with contents, and an engine that has used no memory for them yet.
  void reopen() {
    tensors_.clear();
    EngineConfig config;
    config.mode = StoreMode::kDurable;
    open(32 * kMiB, 0, config);
    for (const TensorId tensor : engine_->tensors(space_)) {
      tensors_.push_back(tensor);
    }
  }
  void open_with_contents(unsigned count) {
    reopen();
    for (unsigned i = 0; i < count; ++i) {
      put(declare(numbered(i), kBytes), content(kBytes, i));
    }
    ASSERT_TRUE(engine_->close().has_value());
    reopen();
    ASSERT_EQ(tensors_.size(), count);
  }
  static void expect_refused(const Result<void>& result, const std::string& name) {
    ASSERT_TRUE(result.has_error());
    const Error& error = result.error();
    EXPECT_EQ(error.code, make_error_code(Fault::kExhausted));
    EXPECT_EQ(error.tensor, name);
    EXPECT_THAT(error.message, HasSubstr("'" + name + "' (2.0 MiB)"));
    EXPECT_THAT(error.message, HasSubstr("free memory of this machine"));
  }
  void expect_all_is_well(TensorId tensor) {
    put(tensor, content(kBytes, 77));
    expect_content(tensor, content(kBytes, 77));
    const Result<void> flushed = engine_->flush();
    EXPECT_TRUE(flushed.has_value()) << flushed.error().message;
    const Result<void> closed = engine_->close();
    EXPECT_TRUE(closed.has_value()) << closed.error().message;
  }

  std::shared_ptr<RefusingSource> memory_ = std::make_shared<RefusingSource>();
  std::vector<TensorId> tensors_;
};

/// Behind a vector's bytes, so that no drive takes it as it is.
class Unaligned {
 public:
  explicit Unaligned(const std::vector<std::byte>& content) : bytes_(content.size() + 8192) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    shift_ = align_up(address, kBlockBytes) - address + 1;
    size_ = content.size();
    std::memcpy(span().data(), content.data(), size_);
  }
  std::span<std::byte> span() { return std::span(bytes_).subspan(shift_, size_); }

 private:
  std::vector<std::byte> bytes_;
  std::size_t shift_ = 0;
  std::size_t size_ = 0;
};

/// As a drive takes it: the last blocks of a content, and its identity, need memory of ours.
class Aligned {
 public:
  explicit Aligned(const std::vector<std::byte>& content)
      : memory_(*PageSource::make()->allocate(content.size())), size_(content.size()) {
    std::memcpy(memory_.data(), content.data(), size_);
  }
  std::span<std::byte> span() { return memory_.span().first(size_); }

 private:
  Memory memory_;
  std::size_t size_;
};

TEST_F(SwapEngineScarcityTest, APutWithoutAChunkFailsAndTheLastContentStands) {
  open(8 * kMiB, 0);
  const TensorId tensor = declare("t", kBytes);
  Unaligned first(content(kBytes, 1));
  Unaligned second(content(kBytes, 2));
  ASSERT_TRUE(engine_->put(tensor, first.span()).wait().has_value());
  memory_->refuse(kHostChunks.chunk_bytes);
  const Result<void> refused = engine_->put(tensor, second.span()).wait();
  expect_refused(refused, "t");
  EXPECT_THAT(refused.error().message, HasSubstr("its last good content is unchanged"));
  EXPECT_EQ(engine_->stats().write_failures, 1U);
  expect_content(tensor, content(kBytes, 1));
  memory_->refuse_nothing();
  expect_all_is_well(tensor);
}

TEST_F(SwapEngineScarcityTest, AGetIntoWithoutAChunkFails) {
  open(8 * kMiB, 0);
  const TensorId tensor = declare("t", kBytes);
  Unaligned target(content(kBytes, 1));
  ASSERT_TRUE(engine_->put(tensor, target.span()).wait().has_value());
  memory_->refuse(kHostChunks.chunk_bytes);
  expect_refused(engine_->get_into(tensor, target.span()).wait(), "t");
  memory_->refuse_nothing();
  std::ranges::fill(target.span(), std::byte{0});
  ASSERT_TRUE(engine_->get_into(tensor, target.span()).wait().has_value());
  EXPECT_EQ(std::memcmp(target.span().data(), content(kBytes, 1).data(), kBytes), 0);
  expect_all_is_well(tensor);
}

TEST_F(SwapEngineScarcityTest, APutWithoutItsLastBlocksFailsAndTheLastContentStands) {
  open_with_contents(1);
  memory_->refuse(TransferMemory::kTrailerBytes);
  Aligned source(content(kBytes, 5));
  expect_refused(engine_->put(tensors_[0], source.span()).wait(), "t0");
  memory_->refuse_nothing();
  expect_content(tensors_[0], content(kBytes, 0));
  expect_all_is_well(tensors_[0]);
}

TEST_F(SwapEngineScarcityTest, ACommitWithoutItsLastBlocksStaysInMemory) {
  open_with_contents(1);
  memory_->refuse(TransferMemory::kTrailerBytes);
  const Result<void> refused = commit(tensors_[0], content(kBytes, 5)).wait();
  expect_refused(refused, "t0");
  EXPECT_THAT(refused.error().message, HasSubstr("its content is still in memory"));
  expect_content(tensors_[0], content(kBytes, 5));
  EXPECT_TRUE(engine_->flush().has_error()) << "only memory has it";
  memory_->refuse_nothing();
  EXPECT_TRUE(engine_->flush().has_value()) << "it is written again";
  expect_all_is_well(tensors_[0]);
}

TEST_F(SwapEngineScarcityTest, AGetWithoutItsLastBlocksFailsAndTheNextOneDoesNot) {
  open_with_contents(1);
  memory_->refuse(TransferMemory::kTrailerBytes);
  expect_refused(engine_->get(tensors_[0]).wait(), "t0");
  Aligned target(content(kBytes, 1));
  expect_refused(engine_->get_into(tensors_[0], target.span()).wait(), "t0");
  EXPECT_EQ(engine_->stats().tensor_read_bytes, 0U);
  memory_->refuse_nothing();
  expect_content(tensors_[0], content(kBytes, 0));
  expect_all_is_well(tensors_[0]);
}

// What is being written is not read ahead: the I/O thread begins that after the write, while the
// other writes have all the memory that transfers have kept.
TEST_F(SwapEngineScarcityTest, ReadingAheadOnTheIoThreadGoesWithout) {
  constexpr unsigned kTensors = 6;
  open_with_contents(kTensors);
  std::mutex mutex;
  std::set<std::thread::id> asking;
  memory_->watch([&](std::uint64_t bytes) {
    if (bytes == TransferMemory::kTrailerBytes) {
      const std::lock_guard lock(mutex);
      asking.insert(std::this_thread::get_id());
    }
  });
  const auto rounds = [&](unsigned count) {
    std::uint64_t refused = 0;
    for (unsigned i = 0; i < count * kTensors; ++i) {
      const Result<Lease> lease = engine_->get(tensors_[i % kTensors], Access::kUpdate).lease();
      if (lease.has_error()) {
        EXPECT_EQ(lease.error().code, make_error_code(Fault::kExhausted)) << lease.error().message;
        ++refused;
        continue;
      }
      EXPECT_EQ(std::memcmp(lease->data(), content(kBytes, i % kTensors).data(), kBytes), 0);
      (void)engine_->commit(*lease);
    }
    return refused;
  };
  const auto threads = [&] {
    const std::lock_guard lock(mutex);
    return asking.size();
  };
  // Which of the two threads finds room first is up to the machine, and later in an engine's life
  // it is hardly ever the I/O thread: so with one engine after the other.
  for (unsigned i = 0; i < 100 && threads() < 2; ++i) {
    ASSERT_TRUE(engine_->close().has_value());
    reopen();
    EXPECT_EQ(rounds(1), 0U);
    memory_->refuse(TransferMemory::kTrailerBytes);
    (void)rounds(5);
    EXPECT_GT(memory_->refusals(), 0U);
    memory_->refuse_nothing();
    (void)engine_->flush();  // says which contents were not written
    EXPECT_EQ(rounds(2), 0U);
  }
  memory_->watch({});
  EXPECT_GT(threads(), 1U) << "the I/O thread has never begun a read";
  expect_all_is_well(tensors_[0]);
}

}  // namespace
}  // namespace penstock
