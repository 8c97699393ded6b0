// Transfers of every kind, again and again: after the first ones nothing is allocated, on any
// thread.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <semaphore>
#include <vector>

#include "alloc/page_source.h"
#include "swap/store/swap_store.h"
#include "swap/transfer/device_staging.h"
#include "swap/transfer/host_transfer.h"
#include "tests/alloc/allocation_counter.h"
#include "tests/io/temp_directory.h"
#include "tests/transfer/transfer_outcome.h"

namespace penstock {
namespace {

/// A device that copies at once and has no words for it, so that what is counted is ours.
class InstantDevice final : public Device {
 public:
  InstantDevice() : Device(DeviceFacts()) {}
  std::string_view runtime() const noexcept override { return "instant"; }
  Result<void> pin(std::span<std::byte>) override { return {}; }
  void unpin(std::span<std::byte>) noexcept override {}
  Result<DeviceSpan> allocate(std::uint64_t bytes) override {
    return DeviceSpan{reinterpret_cast<std::uintptr_t>(std::malloc(bytes)), bytes};
  }
  void release(DeviceSpan memory) noexcept override {
    std::free(reinterpret_cast<void*>(memory.address));
  }
  Result<StreamId> make_stream() override { return StreamId{1}; }
  void destroy_stream(StreamId) noexcept override {}
  Result<void> copy_in(DeviceSpan target, std::span<const std::byte> source, StreamId) override {
    std::memcpy(reinterpret_cast<void*>(target.address), source.data(), source.size());
    return {};
  }
  Result<void> copy_out(std::span<std::byte> target, DeviceSpan source, StreamId) override {
    std::memcpy(target.data(), reinterpret_cast<const void*>(source.address), target.size());
    return {};
  }
  Result<EventId> make_event() override { return EventId{1}; }
  void destroy_event(EventId) noexcept override {}
  Result<void> record(EventId, StreamId) override { return {}; }
  Result<bool> happened(EventId) override { return true; }
  Result<void> wait(EventId) override { return {}; }
  Result<void> hold(StreamId, EventId) override { return {}; }
};

class TransferSteadyState : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 5 * kMiB + 12;

  void SetUp() override {
    queue_ = IoQueue::start(EngineKind::kAuto, {.depth = 8}).value();
    store_ = SwapStore::open_scratch({{directory_.path(), std::nullopt, std::nullopt}}).value();
    BufferPoolOptions options;
    options.pinned = PageSource::make();
    options.overflow = PageSource::make();
    pool_ = std::make_unique<BufferPool>(std::move(options));
    const ClassPlan chunks{kHostChunks.chunk_bytes, kHostChunks.chunks};
    ASSERT_TRUE(pool_->shape(std::array{chunks}).has_value());
    memory_ = *PageSource::make()->allocate(kBytes + 1);
    device_memory_ = *device_->allocate(kBytes);
    stored_ = store_->reserve(1, 1, kBytes).value();
    stored_.identity.level = static_cast<std::uint64_t>(IntegrityLevel::kFull);
    staging_ = *DeviceStaging::open(*queue_, device_, *PageSource::make(), {64 * kKiB, 4});
  }
  void TearDown() override {
    staging_.reset();
    device_->release(device_memory_);
  }

  std::span<std::byte> content(std::size_t shift) { return memory_.span().subspan(shift, kBytes); }
  HostTransfer::Place place() {
    return {queue_.get(), pool_.get(), transfers_, &store_->file(stored_), stored_, info_};
  }
  auto done() {
    return [this](const Result<std::uint64_t>& moved) {
      if (moved.has_error()) {
        failed_ = true;
      } else if (*moved != 0) {
        checksum_ = *moved;
      }
      over_.release();
    };
  }
  void write(std::size_t shift) {
    for (int i = 0; i < at_once_; ++i) {
      HostTransfer::start(
          *HostTransfer::of_write(place(), content(shift), IoPriority::kDemand, done()));
    }
    wait();
  }
  void read(std::size_t shift) {
    for (int i = 0; i < at_once_; ++i) {
      HostTransfer::start(
          *HostTransfer::of_read(place(), content(shift), IoPriority::kDemand, done()));
    }
    wait();
  }
  void move(const TransferEnd& source, const TransferEnd& target) {
    for (int i = 0; i < at_once_; ++i) {
      staging_->move({info_, source, target}, done());
    }
    wait();
  }
  void wait() {
    for (int i = 0; i < at_once_; ++i) {
      over_.acquire();
    }
    stored_.identity.checksum = checksum_;
  }
  void every_kind() {
    const DeviceTensor device{device_.get(), device_memory_};
    write(0);
    read(0);
    write(1);
    read(1);
    move(device, OnDrive{&store_->file(stored_), stored_});
    move(OnDrive{&store_->file(stored_), stored_}, device);
    move(InMemory{content(1)}, device);
    move(device, InMemory{content(1)});
    move(InMemory{content(0), true}, device);
    move(device, InMemory{content(0), true});
  }

  TempDirectory directory_;
  std::unique_ptr<IoQueue> queue_;
  std::unique_ptr<SwapStore> store_;
  std::unique_ptr<BufferPool> pool_;
  const std::shared_ptr<InstantDevice> device_ = std::make_shared<InstantDevice>();
  const std::shared_ptr<TransferMemory> transfers_ = TransferMemory::make(PageSource::make());
  const std::shared_ptr<const TensorInfo> info_ =
      bytes_info("a.name.that.no.small.string.has.room.for", kBytes);
  Memory memory_;
  DeviceSpan device_memory_;
  StoredTensor stored_;
  std::unique_ptr<DeviceStaging> staging_;
  std::counting_semaphore<> over_{0};
  std::atomic<bool> failed_ = false;
  std::atomic<std::uint64_t> checksum_ = 0;
  int at_once_ = 1;
};

TEST_F(TransferSteadyState, AllocatesNothing) {
  // A transfer goes on the thread that ends it, maybe after the next one has begun: several of each
  // kind at once leave enough behind.
  at_once_ = 8;
  every_kind();
  at_once_ = 1;
  every_kind();
  const std::uint64_t before = allocations_of_all_threads();
  for (int round = 0; round < 20; ++round) {
    every_kind();
  }
  EXPECT_EQ(allocations_of_all_threads(), before);
  EXPECT_FALSE(failed_);
  std::vector<std::byte> again(1);
  EXPECT_GT(allocations_of_all_threads(), before) << "an allocation would not be seen";
}

}  // namespace
}  // namespace penstock
