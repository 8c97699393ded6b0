#include "swap/transfer/host_transfer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "swap/store/swap_store.h"
#include "swap/transfer/checksum.h"
#include "tests/alloc/random_bytes.h"
#include "tests/alloc/refusing_source.h"
#include "tests/alloc/same_bytes.h"
#include "tests/io/temp_directory.h"
#include "tests/transfer/transfer_outcome.h"

namespace penstock {
namespace {

/// A store of one drive, with what it takes to move tensors, on the engine asked for.
class HostTransferTest : public ::testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    IoEngineOptions options;
    options.depth = 8;
    auto queue = IoQueue::start(GetParam(), options);
    if (queue.has_error()) {
      GTEST_SKIP() << queue.error().message;
    }
    queue_ = std::move(queue).value();
    BufferPoolOptions pool;
    pool.pinned = PageSource::make();
    pool.overflow = memory_;
    pool_ = std::make_unique<BufferPool>(std::move(pool));
    store_ = SwapStore::open_scratch({{directory_.path(), std::nullopt, std::nullopt}}).value();
  }

  std::optional<Error> write(StoredTensor& stored, std::span<const std::byte> source,
                             IntegrityLevel level = IntegrityLevel::kFull) {
    stored.identity.level = static_cast<std::uint64_t>(level);
    stored.identity.checksum = checksum(level, source);
    return transfer_outcome([&](auto done) {
      return HostTransfer::of_write(place_of(stored), source, IoPriority::kBehind, done);
    });
  }
  std::optional<Error> read(const StoredTensor& stored, std::span<std::byte> target) {
    return transfer_outcome([&](auto done) {
      return HostTransfer::of_read(place_of(stored), target, IoPriority::kDemand, done);
    });
  }

  HostTransfer::Place place_of(const StoredTensor& stored) {
    return {queue_.get(),          pool_.get(), transfers_,
            &store_->file(stored), stored,      bytes_info("the.tensor", stored.bytes())};
  }

  /// Writes into the store's file behind its back.
  void damage(const StoredTensor& stored, std::uint64_t offset_in_extent, std::byte value) {
    std::vector<std::byte> block(kBlockBytes, value);
    const std::uint64_t offset = align_down(stored.extent.offset + offset_in_extent, kBlockBytes);
    const std::string name = "/proc/self/fd/" + std::to_string(store_->file(stored).fd());
    const int fd = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::pwrite(fd, block.data(), block.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(block.size()));
    ::fsync(fd);
    ::close(fd);
  }

  TempDirectory directory_;
  std::shared_ptr<RefusingSource> memory_ = std::make_shared<RefusingSource>();
  std::shared_ptr<TransferMemory> transfers_ = TransferMemory::make(memory_);
  std::unique_ptr<IoQueue> queue_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<SwapStore> store_;
};

/// ShiftedBytes at an address that is a multiple of 4 KiB plus `shift`.
class ShiftedBytes {
 public:
  ShiftedBytes(std::size_t size, std::size_t shift)
      : memory_(PageSource::make()->allocate(size + shift + 1).value()),
        shift_(shift),
        size_(size) {}
  std::span<std::byte> span() { return {memory_.data() + shift_, size_}; }
  bool equals(ShiftedBytes& other) { return same_bytes(span(), other.span()); }

 private:
  Memory memory_;
  std::size_t shift_;
  std::size_t size_;
};

TEST_P(HostTransferTest, AnySizeFromAnyAddressComesBack) {
  const std::vector<std::size_t> sizes{1,        100,          4095,     4096,
                                       4097,     8192,         kMiB - 1, kMiB,
                                       kMiB + 1, 3 * kMiB + 5, 5 * kMiB, 8 * kMiB + 1};
  for (const std::size_t size : sizes) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{64}, std::size_t{1}}) {
      ShiftedBytes source(size, shift);
      ShiftedBytes target(size, 64 - shift);
      fill_random(source.span(), size);
      StoredTensor stored = store_->reserve(size, 1, size).value();
      ASSERT_EQ(write(stored, source.span()), std::nullopt);
      const auto error = read(stored, target.span());
      ASSERT_FALSE(error.has_value()) << size << '+' << shift << ": " << error->message;
      ASSERT_TRUE(source.equals(target)) << size << '+' << shift;
    }
  }
}

TEST_P(HostTransferTest, StagesThroughSlotsWhereThereAreSome) {
  ASSERT_TRUE(pool_->shape(std::vector<ClassPlan>{{kHostChunks.chunk_bytes, 4}}).has_value());
  ShiftedBytes source(20 * kMiB + 3, 8);
  ShiftedBytes target(20 * kMiB + 3, 24);
  fill_random(source.span(), 3);
  StoredTensor stored = store_->reserve(1, 1, source.span().size()).value();
  ASSERT_EQ(write(stored, source.span()), std::nullopt);
  ASSERT_EQ(read(stored, target.span()), std::nullopt);
  EXPECT_TRUE(source.equals(target));
  EXPECT_EQ(pool_->stats().overflows, 0u);
  EXPECT_EQ(pool_->stats().slot_bytes_live, 0u) << "chunks must come back";
}

TEST_P(HostTransferTest, SaysWhoseBytesCameBackInstead) {
  ShiftedBytes source(2 * kMiB, 0);
  ShiftedBytes target(2 * kMiB, 0);
  fill_random(source.span(), 1);
  StoredTensor stored = store_->reserve(1, 5, source.span().size()).value();
  ASSERT_EQ(write(stored, source.span()), std::nullopt);
  StoredTensor expected = stored;
  expected.identity.generation = 6;
  const auto stale = read(expected, target.span());
  ASSERT_TRUE(stale.has_value());
  EXPECT_EQ(stale->code, make_error_code(Fault::kCorrupt));
  EXPECT_EQ(stale->tensor, "the.tensor");
  EXPECT_NE(stale->message.find("generation 5 instead of 6"), std::string::npos) << stale->message;
}

TEST_P(HostTransferTest, DamagedBytesAreAnErrorAtEachLevelThatLooks) {
  for (const IntegrityLevel level : {IntegrityLevel::kSampled, IntegrityLevel::kFull}) {
    ShiftedBytes source(kMiB + 7, 0);
    ShiftedBytes target(kMiB + 7, 0);
    fill_random(source.span(), 9);
    StoredTensor stored = store_->reserve(1, 1, source.span().size()).value();
    ASSERT_EQ(write(stored, source.span(), level), std::nullopt);
    damage(stored, 512 * kKiB, std::byte{0x5a});
    const auto error = read(stored, target.span());
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code, make_error_code(Fault::kCorrupt));
    EXPECT_EQ(error->path, directory_.path());
  }
}

TEST_P(HostTransferTest, DamagedIdentityIsAnErrorEvenWithoutChecksums) {
  ShiftedBytes source(kMiB, 0);
  ShiftedBytes target(kMiB, 0);
  fill_random(source.span(), 9);
  StoredTensor stored = store_->reserve(1, 1, source.span().size()).value();
  ASSERT_EQ(write(stored, source.span(), IntegrityLevel::kOff), std::nullopt);
  damage(stored, kMiB, std::byte{0});
  const auto error = read(stored, target.span());
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->message.find("no identity"), std::string::npos) << error->message;
}

TEST_P(HostTransferTest, AFileThatEndsEarlyIsAnErrorWithPlaceAndName) {
  ShiftedBytes source(2 * kMiB, 0);
  ShiftedBytes target(2 * kMiB, 0);
  fill_random(source.span(), 9);
  StoredTensor stored = store_->reserve(1, 1, source.span().size()).value();
  ASSERT_EQ(write(stored, source.span()), std::nullopt);
  ASSERT_EQ(::ftruncate(store_->file(stored).fd(), static_cast<off_t>(kMiB)), 0);
  const auto error = read(stored, target.span());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->system_errno(), ENODATA);
  EXPECT_EQ(error->tensor, "the.tensor");
  EXPECT_EQ(error->path, directory_.path());
  EXPECT_NE(error->message.find("offset"), std::string::npos) << error->message;
}

TEST_P(HostTransferTest, WithoutMemoryForTheLastBlocksNothingBegins) {
  ShiftedBytes source(kMiB + 7, 0);
  ShiftedBytes target(kMiB + 7, 0);
  fill_random(source.span(), 9);
  StoredTensor stored = store_->reserve(1, 1, source.span().size()).value();
  memory_->refuse(TransferMemory::kTrailerBytes);
  for (const auto& error : {write(stored, source.span()), read(stored, target.span())}) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code, make_error_code(Fault::kExhausted));
    EXPECT_EQ(error->tensor, "the.tensor");
    EXPECT_EQ(error->path, directory_.path());
    EXPECT_NE(error->message.find("'the.tensor' (1.0 MiB)"), std::string::npos) << error->message;
  }
  memory_->refuse_nothing();
  ASSERT_EQ(write(stored, source.span()), std::nullopt);
  ASSERT_EQ(read(stored, target.span()), std::nullopt);
  EXPECT_TRUE(source.equals(target));
}

TEST_P(HostTransferTest, WithoutMemoryForAChunkNothingBegins) {
  ShiftedBytes source(2 * kMiB, 8);
  ShiftedBytes target(2 * kMiB, 24);
  fill_random(source.span(), 9);
  StoredTensor stored = store_->reserve(1, 1, source.span().size()).value();
  memory_->refuse(kHostChunks.chunk_bytes);
  for (const auto& error : {write(stored, source.span()), read(stored, target.span())}) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code, make_error_code(Fault::kExhausted));
    EXPECT_NE(error->message.find("free memory"), std::string::npos) << error->message;
  }
  memory_->refuse_nothing();
  ASSERT_EQ(write(stored, source.span()), std::nullopt);
  ASSERT_EQ(read(stored, target.span()), std::nullopt);
  EXPECT_TRUE(source.equals(target));
  EXPECT_EQ(memory_->held_bytes(), 0U);
}

TEST_P(HostTransferTest, AReadEndsOnTheIoThreadHoweverFastItIs) {
  ShiftedBytes memory(100, 0);
  fill_random(memory.span(), 1);
  StoredTensor stored = store_->reserve(1, 1, 100).value();
  ASSERT_EQ(write(stored, memory.span()), std::nullopt);

  std::atomic<int> wrong_thread = 0;
  std::counting_semaphore<> over{0};
  for (int round = 0; round < 3000; ++round) {
    {
      const auto done = [&, starting = std::this_thread::get_id()](const Result<std::uint64_t>&) {
        wrong_thread += std::this_thread::get_id() == starting ? 1 : 0;
        over.release();
      };
      HostTransfer::start(
          *HostTransfer::of_read(place_of(stored), memory.span(), IoPriority::kDemand, done));
      std::this_thread::yield();
    }
    over.acquire();
  }
  EXPECT_EQ(wrong_thread, 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, HostTransferTest,
                         ::testing::Values(EngineKind::kUring, EngineKind::kAio,
                                           EngineKind::kThreads),
                         [](const auto& engine) {
                           return std::string(engine_kind_name(engine.param));
                         });

}  // namespace
}  // namespace penstock
