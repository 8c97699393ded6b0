#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/page_source.h"
#include "alloc/pinned_source.h"
#include "swap/device/host_device.h"
#include "swap/store/swap_store.h"
#include "swap/transfer/device_staging.h"
#include "tests/alloc/random_bytes.h"
#include "tests/io/temp_directory.h"

namespace penstock {

/// Direct storage of a simulated device: its memory is the host's.
class HostStorage final : public DirectStorage {
 public:
  std::string_view library() const noexcept override { return "simulated"; }
  std::atomic<int> registered = 0;
  std::atomic<std::uint64_t> moved_bytes = 0;
  std::atomic<int> fails = 0;  // so many calls, with EIO

 protected:
  Result<void*> add(int descriptor, const std::string&) override {
    ++registered;
    return reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  }
  void remove(void*) noexcept override { --registered; }
  Result<Step> step(Direction direction, void* handle, std::uint64_t offset,
                    DeviceSpan memory) override {
    if (fails > 0 && fails-- > 0) {
      return Step{-1, EIO};
    }
    const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
    const auto at = static_cast<off_t>(offset);
    // By way of aligned memory, as direct I/O wants it; less than asked for, as any library may.
    const std::uint64_t bytes = std::min<std::uint64_t>(memory.bytes, 64 * kKiB);
    const Memory aligned = *PageSource::make()->allocate(bytes);
    auto* const there = reinterpret_cast<std::byte*>(memory.address);
    ssize_t moved = 0;
    if (direction == Direction::kRead) {
      moved = ::pread(file, aligned.span().data(), bytes, at);
      std::copy_n(aligned.span().data(), moved > 0 ? moved : 0, there);
    } else {
      std::copy_n(there, bytes, aligned.span().data());
      moved = ::pwrite(file, aligned.span().data(), bytes, at);
    }
    moved_bytes += moved > 0 ? static_cast<std::uint64_t>(moved) : 0;
    return Step{moved, errno};
  }
  Error refusal(std::int64_t number, const std::string& doing) const override {
    return fault(Fault::kUnsupported, doing + ": " + std::to_string(number));
  }
};

/// A simulated device, a store of one drive, and a few chunks between them.
class DeviceStagingTest : public testing::Test {
 protected:
  using Outcome = std::future<Result<std::uint64_t>>;

  void SetUp() override {
    queue_ = IoQueue::start(EngineKind::kThreads, {.depth = 8}).value();
    store_ = SwapStore::open_scratch({{directory_.path(), std::nullopt, std::nullopt}}).value();
    open(1, {.chunk_bytes = 64 * kKiB, .chunks = 4});
  }
  void TearDown() override {
    staging_.reset();
    EXPECT_EQ(device_->pinned_bytes(), 0U);
    EXPECT_EQ(device_->unpinned_copies(), 0U);
  }

  void open(std::uint64_t seed, const ChunkShape& shape) {
    staging_.reset();
    device_ = HostDevice::make({.seed = seed});
    auto staging = DeviceStaging::open(*queue_, device_, *pinned(device_), shape);
    ASSERT_TRUE(staging.has_value()) << staging.error().message;
    staging_ = std::move(*staging);
    EXPECT_EQ(device_->pinned_bytes(), shape.chunks * shape.chunk_bytes);
  }

  std::shared_ptr<MemorySource> pinned(const std::shared_ptr<Device>& device) {
    return PinnedSource::make(PageSource::make(), pinned_for(std::array{device}));
  }

  // A device's memory is the host's here: looked at only when nothing is under way.
  static std::span<std::byte> bytes_of(DeviceSpan memory) {
    return {reinterpret_cast<std::byte*>(memory.address), memory.bytes};
  }
  DeviceSpan filled(std::uint64_t bytes, std::uint64_t seed) {
    const DeviceSpan memory = *device_->allocate(bytes);
    fill_random(bytes_of(memory), seed);
    return memory;
  }
  StoredTensor reserve(std::uint64_t bytes, IntegrityLevel level = IntegrityLevel::kFull) {
    StoredTensor stored = store_->reserve(store_->number_tensor(), 1, bytes).value();
    stored.identity.level = static_cast<std::uint64_t>(level);
    return stored;
  }
  static std::shared_ptr<const TensorInfo> info(std::uint64_t bytes, DType dtype = DType::kU8) {
    return std::make_shared<const TensorInfo>(
        TensorInfo{"the.tensor", dtype, {bytes / dtype_bytes(dtype)}, Role::kParam});
  }
  DeviceTensor on_device(DeviceSpan memory, std::optional<DType> dtype = {}, StreamId stream = {}) {
    return {device_.get(), memory, dtype, stream};
  }
  TransferRequest to_device(const StoredTensor& stored, const DeviceTensor& tensor,
                            DType dtype = DType::kU8) {
    return {info(stored.bytes(), dtype), OnDrive{&store_->file(stored), stored}, tensor};
  }
  TransferRequest from_device(const StoredTensor& stored, const DeviceTensor& tensor,
                              DType dtype = DType::kU8) {
    return {info(stored.bytes(), dtype), tensor, OnDrive{&store_->file(stored), stored}};
  }
  static std::function<void(Result<std::uint64_t>)> keep_in(Outcome& outcome) {
    auto promise = std::make_shared<std::promise<Result<std::uint64_t>>>();
    outcome = promise->get_future();
    return [promise](Result<std::uint64_t> done) { promise->set_value(std::move(done)); };
  }
  Outcome read(const StoredTensor& stored, DeviceSpan memory) {
    Outcome outcome;
    staging_->move(to_device(stored, on_device(memory)), keep_in(outcome));
    return outcome;
  }
  Outcome write(const StoredTensor& stored, DeviceSpan memory, StreamId stream = {}) {
    Outcome outcome;
    staging_->move(from_device(stored, on_device(memory, {}, stream)), keep_in(outcome));
    return outcome;
  }
  void write_and_wait(StoredTensor& stored, DeviceSpan memory) {
    const Result<std::uint64_t> written = write(stored, memory).get();
    ASSERT_TRUE(written.has_value()) << written.error().message;
    stored.identity.checksum = *written;
  }

  int open_behind_its_back(const StoredTensor& stored) {
    return ::open(("/proc/self/fd/" + std::to_string(store_->file(stored).fd())).c_str(),
                  O_RDWR | O_CLOEXEC);
  }
  void damage(const StoredTensor& stored, std::uint64_t offset) {
    const int file = open_behind_its_back(stored);
    std::vector<std::byte> block(kBlockBytes, std::byte{0x5A});
    EXPECT_EQ(::pwrite(file, block.data(), block.size(),
                       static_cast<off_t>(stored.extent.offset + offset)),
              static_cast<ssize_t>(block.size()));
    ::fsync(file);
    ::close(file);
  }

  TempDirectory directory_;
  std::unique_ptr<IoQueue> queue_;
  std::unique_ptr<SwapStore> store_;
  std::shared_ptr<HostDevice> device_;
  std::unique_ptr<DeviceStaging> staging_;
};

}  // namespace penstock
