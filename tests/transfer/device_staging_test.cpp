#include "swap/transfer/device_staging.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <vector>

#include "alloc/page_source.h"
#include "alloc/pinned_source.h"
#include "swap/device/device_runtime.h"
#include "swap/device/host_device.h"
#include "swap/store/swap_store.h"
#include "swap/transfer/dtype_conversion.h"
#include "tests/alloc/random_bytes.h"
#include "tests/alloc/same_bytes.h"
#include "tests/io/temp_directory.h"
#include "tests/transfer/transfer_outcome.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Outcome = std::future<Result<std::uint64_t>>;

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

TEST_F(DeviceStagingTest, AnySizeComesBackAtEveryLevel) {
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{4096}, std::uint64_t{4097}, 60 * kKiB,
        64 * kKiB - 1, 64 * kKiB, 64 * kKiB + 1, 300 * kKiB + 7, 3 * kMiB}) {
    for (const IntegrityLevel level :
         {IntegrityLevel::kOff, IntegrityLevel::kSampled, IntegrityLevel::kFull}) {
      const DeviceSpan source = filled(bytes, bytes);
      const DeviceSpan target = *device_->allocate(bytes);
      StoredTensor stored = reserve(bytes, level);
      write_and_wait(stored, source);
      EXPECT_EQ(stored.identity.checksum, checksum(level, bytes_of(source)));
      const Result<std::uint64_t> done = read(stored, target).get();
      ASSERT_TRUE(done.has_value()) << done.error().message;
      EXPECT_TRUE(same_bytes(bytes_of(source), bytes_of(target))) << bytes;
      device_->release(source);
      device_->release(target);
    }
  }
}

TEST_F(DeviceStagingTest, ManyTensorsThroughFewChunksInAnyOrderOfTheDevice) {
  std::mt19937_64 random(1);
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    open(seed, {.chunk_bytes = (2 + random() % 3) * 4 * kKiB,
                .chunks = static_cast<std::uint32_t>(1 + random() % 4)});
    std::vector<StoredTensor> tensors;
    std::vector<DeviceSpan> sources;
    std::vector<Outcome> outcomes;
    for (std::uint64_t count = 1 + random() % 4; count > 0; --count) {
      sources.push_back(filled(1 + random() % (50 * kKiB), seed + count));
      tensors.push_back(reserve(sources.back().bytes));
      outcomes.push_back(write(tensors.back(), sources.back()));
    }
    std::vector<DeviceSpan> targets;
    for (std::size_t at = 0; at < tensors.size(); ++at) {
      tensors[at].identity.checksum = outcomes[at].get().value();
      targets.push_back(*device_->allocate(sources[at].bytes));
    }
    for (std::size_t at = 0; at < tensors.size(); ++at) {
      outcomes[at] = read(tensors[at], targets[at]);
    }
    for (std::size_t at = 0; at < tensors.size(); ++at) {
      const Result<std::uint64_t> done = outcomes[at].get();
      ASSERT_TRUE(done.has_value()) << "seed " << seed << ": " << done.error().message;
      ASSERT_TRUE(same_bytes(bytes_of(sources[at]), bytes_of(targets[at]))) << "seed " << seed;
      store_->release(tensors[at]);
    }
    TearDown();
  }
}

TEST_F(DeviceStagingTest, TheSameLayoutAsThroughTheHost) {
  BufferPoolOptions options;
  options.pinned = PageSource::make();
  options.overflow = PageSource::make();
  BufferPool pool(std::move(options));
  const std::uint64_t bytes = 200 * kKiB + 3;
  const DeviceSpan memory = filled(bytes, 1);
  StoredTensor stored = reserve(bytes);
  write_and_wait(stored, memory);
  std::vector<std::byte> host(bytes);
  const auto transfers = TransferMemory::make(PageSource::make());
  const std::optional<Error> error = transfer_outcome([&](auto done) {
    return HostTransfer::of_read(
        {queue_.get(), &pool, transfers, &store_->file(stored), stored, info(bytes)}, host,
        IoPriority::kDemand, done);
  });
  EXPECT_FALSE(error) << error->message;
  EXPECT_TRUE(same_bytes(host, bytes_of(memory)));
}

TEST_F(DeviceStagingTest, WhatAStreamMakesIsWhatIsWritten) {
  const std::uint64_t bytes = 100 * kKiB;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    open(seed, {.chunk_bytes = 16 * kKiB, .chunks = 2});
    const Memory fresh = *PageSource::make()->allocate(bytes);
    fill_random(fresh.span(), 1000 + seed);
    ASSERT_TRUE(device_->pin(fresh.span()));
    const StreamId producer = *device_->make_stream();
    const EventId made = *device_->make_event();
    const DeviceSpan memory = filled(bytes, seed);
    ASSERT_TRUE(device_->copy_in(memory, fresh.span().first(bytes), producer));
    StoredTensor stored = reserve(bytes);
    const Result<std::uint64_t> written = write(stored, memory, producer).get();
    ASSERT_TRUE(written.has_value());
    EXPECT_EQ(*written, checksum(IntegrityLevel::kFull, fresh.span().first(bytes)))
        << "seed " << seed;
    ASSERT_TRUE(device_->record(made, producer));
    ASSERT_TRUE(device_->wait(made));
    device_->destroy_event(made);
    device_->destroy_stream(producer);
    device_->unpin(fresh.span());
  }
}

TEST_F(DeviceStagingTest, ConvertsOnTheWayBothWays) {
  std::mt19937_64 random(2);
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    open(seed, {.chunk_bytes = (2 + random() % 3) * 4 * kKiB,
                .chunks = static_cast<std::uint32_t>(1 + random() % 4)});
    const DType here = kTypes[random() % 3];
    const DType there = kTypes[random() % 3];
    const std::uint64_t elements = 1 + random() % 20'000;
    const DeviceSpan source = filled(elements * dtype_bytes(there), seed);
    std::vector<std::byte> stored_content(elements * dtype_bytes(here));
    convert(there, bytes_of(source), here, stored_content);
    StoredTensor stored = reserve(stored_content.size());
    Outcome outcome;
    staging_->move(from_device(stored, on_device(source, there), here), keep_in(outcome));
    stored.identity.checksum = outcome.get().value();
    ASSERT_EQ(stored.identity.checksum, checksum(IntegrityLevel::kFull, stored_content))
        << "seed " << seed;
    std::vector<std::byte> expected(source.bytes);
    convert(here, stored_content, there, expected);
    const DeviceSpan target = *device_->allocate(source.bytes);
    staging_->move(to_device(stored, on_device(target, there), here), keep_in(outcome));
    ASSERT_TRUE(outcome.get().has_value());
    ASSERT_TRUE(same_bytes(bytes_of(target), expected)) << "seed " << seed;
    store_->release(stored);
  }
}

TEST_F(DeviceStagingTest, HostMemoryIsAsGoodAsADrive) {
  std::mt19937_64 random(3);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    open(seed, {.chunk_bytes = 8 * kKiB, .chunks = static_cast<std::uint32_t>(1 + random() % 3)});
    const DType there = random() % 2 == 0 ? DType::kF32 : DType::kBF16;
    const std::uint64_t elements = 1 + random() % 10'000;
    const Memory memory = *PageSource::make()->allocate(elements * sizeof(float));
    const std::span<std::byte> content = memory.span().first(elements * sizeof(float));
    const bool is_pinned = random() % 2 == 0;
    if (is_pinned) {
      ASSERT_TRUE(device_->pin(memory.span()));
    }
    const DeviceSpan source = filled(elements * dtype_bytes(there), seed);
    const DeviceSpan target = *device_->allocate(source.bytes);
    Outcome outcome;
    staging_->move(
        {info(content.size(), DType::kF32), on_device(source, there), InMemory{content, is_pinned}},
        keep_in(outcome));
    ASSERT_TRUE(outcome.get().has_value());
    std::vector<std::byte> expected(content.size());
    convert(there, bytes_of(source), DType::kF32, expected);
    ASSERT_TRUE(same_bytes(content, expected)) << "seed " << seed;
    staging_->move({info(content.size(), DType::kF32), InMemory{content, is_pinned},
                    on_device(target, DType::kF32)},
                   keep_in(outcome));
    const Result<std::uint64_t> done = outcome.get();
    ASSERT_EQ(done.has_value(), there == DType::kF32);
    if (done.has_value()) {
      ASSERT_TRUE(same_bytes(bytes_of(target), content)) << "seed " << seed;
    }
    if (is_pinned) {
      device_->unpin(memory.span());
    }
    EXPECT_EQ(device_->unpinned_copies(), 0U);
  }
}

TEST_F(DeviceStagingTest, PastHostMemoryWhatNeedNotBeHashed) {
  const auto direct = std::make_shared<HostStorage>();
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    staging_.reset();
    device_ = HostDevice::make({.seed = seed});
    staging_ = *DeviceStaging::open(*queue_, device_, *pinned(device_),
                                    {.chunk_bytes = 8 * kKiB, .chunks = 2}, direct);
    std::vector<StoredTensor> tensors;
    std::vector<DeviceSpan> sources;
    std::vector<Outcome> outcomes;
    for (const std::uint64_t bytes :
         {seed * 5003 + 1, std::uint64_t{200 * kKiB}, 7 * seed + 4096}) {
      sources.push_back(filled(bytes, seed));
      tensors.push_back(reserve(bytes, IntegrityLevel::kOff));
      outcomes.push_back(write(tensors.back(), sources.back()));
    }
    for (std::size_t at = 0; at < tensors.size(); ++at) {
      ASSERT_TRUE(outcomes[at].get().has_value());
      const DeviceSpan target = *device_->allocate(sources[at].bytes);
      const Result<std::uint64_t> done = read(tensors[at], target).get();
      ASSERT_TRUE(done.has_value()) << done.error().message;
      ASSERT_TRUE(same_bytes(bytes_of(sources[at]), bytes_of(target))) << "seed " << seed;
      store_->release(tensors[at]);
    }
  }
  EXPECT_GT(direct->moved_bytes, 100 * 2 * 200 * kKiB);
  staging_.reset();
  EXPECT_EQ(direct->registered, 0);
}

TEST_F(DeviceStagingTest, WhatFailsPastHostMemoryIsTold) {
  const auto direct = std::make_shared<HostStorage>();
  staging_ = *DeviceStaging::open(*queue_, device_, *pinned(device_),
                                  {.chunk_bytes = 8 * kKiB, .chunks = 2}, direct);
  const DeviceSpan memory = filled(20 * kMiB + 5, 1);
  StoredTensor stored = reserve(memory.bytes, IntegrityLevel::kOff);
  direct->fails = 2;
  const Result<std::uint64_t> failed = write(stored, memory).get();
  ASSERT_TRUE(failed.has_error());
  EXPECT_EQ(failed.error().system_errno(), EIO);
  EXPECT_EQ(failed.error().tensor, "the.tensor");
  EXPECT_THAT(failed.error().message, HasSubstr("simulated cannot write"));
  direct->fails = 0;
  write_and_wait(stored, memory);
  damage(stored, stored.layout_bytes() - kBlockBytes);
  EXPECT_EQ(read(stored, memory).get().error().code, make_error_code(Fault::kCorrupt))
      << "the identity is looked at all the same";
  staging_.reset();
  EXPECT_EQ(direct->registered, 0);
}

TEST_F(DeviceStagingTest, NoConversionBetweenNumbersOfOtherKinds) {
  const DeviceSpan memory = filled(4000, 1);
  const StoredTensor stored = reserve(4000);
  Outcome outcome;
  staging_->move(to_device(stored, on_device(memory, DType::kF32), DType::kI32), keep_in(outcome));
  const Result<std::uint64_t> done = outcome.get();
  ASSERT_TRUE(done.has_error());
  EXPECT_EQ(done.error().code, make_error_code(Fault::kInvalidArgument));
  EXPECT_THAT(done.error().message, HasSubstr("is i32 and cannot be converted to or from f32"));
}

TEST_F(DeviceStagingTest, DamageIsTold) {
  const std::uint64_t bytes = 300 * kKiB + 1;
  const DeviceSpan memory = filled(bytes, 1);
  StoredTensor first = reserve(bytes);
  StoredTensor second = reserve(bytes);
  write_and_wait(first, memory);
  write_and_wait(second, memory);
  damage(first, 128 * kKiB);
  damage(second, second.layout_bytes() - kBlockBytes);
  for (const StoredTensor& stored : {first, second}) {
    const Result<std::uint64_t> done = read(stored, memory).get();
    ASSERT_TRUE(done.has_error());
    EXPECT_EQ(done.error().code, make_error_code(Fault::kCorrupt)) << done.error().message;
    EXPECT_THAT(done.error().message, HasSubstr("the.tensor"));
    EXPECT_EQ(done.error().tensor, "the.tensor");
    EXPECT_FALSE(done.error().path.empty());
  }
}

TEST_F(DeviceStagingTest, ADriveThatFailsEndsOneTransferAndNoOther) {
  const std::uint64_t bytes = kMiB;
  const DeviceSpan memory = filled(bytes, 1);
  StoredTensor kept = reserve(bytes);
  StoredTensor lost = reserve(bytes);
  write_and_wait(kept, memory);
  write_and_wait(lost, memory);
  ASSERT_GT(lost.extent.offset, kept.extent.offset);
  const int file = open_behind_its_back(lost);
  ASSERT_EQ(::ftruncate(file, static_cast<off_t>(lost.extent.offset + 512 * kKiB)), 0);
  ::close(file);
  std::vector<Outcome> good;
  std::vector<Outcome> bad;
  for (int round = 0; round < 8; ++round) {
    bad.push_back(read(lost, memory));
    good.push_back(read(kept, memory));
  }
  for (int round = 0; round < 8; ++round) {
    const Result<std::uint64_t> failed = bad[static_cast<std::size_t>(round)].get();
    ASSERT_TRUE(failed.has_error());
    EXPECT_EQ(failed.error().system_errno(), ENODATA) << failed.error().message;
    EXPECT_THAT(failed.error().message,
                HasSubstr("cannot read tensor 'the.tensor' (1.0 MiB) from"));
    EXPECT_EQ(failed.error().tensor, "the.tensor");
    EXPECT_TRUE(good[static_cast<std::size_t>(round)].get().has_value());
  }
}

TEST_F(DeviceStagingTest, MemoryOfAnotherSizeOrOfNobody) {
  StoredTensor stored = reserve(kMiB);
  const DeviceSpan memory = filled(kMiB, 1);
  const Result<std::uint64_t> small = read(stored, memory.part(0, kMiB - 1)).get();
  EXPECT_EQ(small.error().code, make_error_code(Fault::kWrongSize));
  std::vector<std::byte> host(kMiB);
  const DeviceSpan stray{reinterpret_cast<std::uintptr_t>(host.data()), kMiB};
  const Result<std::uint64_t> refused = write(stored, stray).get();
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().tensor, "the.tensor");
  write_and_wait(stored, memory);
}

TEST_F(DeviceStagingTest, MoreThanTheDevicePins) {
  const auto device = HostDevice::make({.pin_limit_bytes = 64 * kKiB});
  const auto staging = DeviceStaging::open(*queue_, device, *pinned(device),
                                           {.chunk_bytes = 64 * kKiB, .chunks = 2});
  ASSERT_TRUE(staging.has_error());
  EXPECT_EQ(staging.error().code, make_error_code(Fault::kExhausted)) << staging.error().message;
  EXPECT_EQ(device->pinned_bytes(), 0U);
}

TEST_F(DeviceStagingTest, EndsAfterTheLastTransfer) {
  const DeviceSpan memory = filled(kMiB, 1);
  StoredTensor stored = reserve(kMiB);
  Outcome outcome = write(stored, memory);
  staging_.reset();
  EXPECT_EQ(outcome.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_TRUE(outcome.get().has_value());
}

/// The same over a device of any runtime: its memory is reached by copies alone.
class DeviceStagingOver : public testing::TestWithParam<const char*> {};

TEST_P(DeviceStagingOver, WhatAStreamMadeComesBack) {
  const auto device = open_device(GetParam());
  if (device.has_error()) {
    GTEST_SKIP() << device.error().message;
  }
  TempDirectory directory;
  const auto queue = *IoQueue::start(EngineKind::kAuto, {.depth = 8});
  const auto store = *SwapStore::open_scratch({{directory.path(), std::nullopt, std::nullopt}});
  const auto pages = PinnedSource::make(PageSource::make(), pinned_for(std::array{*device}));
  const auto staging = *DeviceStaging::open(*queue, *device, *pages, kHostChunks);
  const std::uint64_t bytes = 9 * kMiB + 4097;
  const Memory host = *pages->allocate(bytes);
  const std::vector<std::byte> content = random_bytes(bytes, 1);
  copy_bytes(content, host.span().data());
  const DeviceSpan source = *(*device)->allocate(bytes);
  const DeviceSpan target = *(*device)->allocate(bytes);
  const StreamId stream = *(*device)->make_stream();
  ASSERT_TRUE((*device)->copy_in(source, host.span().first(bytes), stream));
  StoredTensor stored = store->reserve(store->number_tensor(), 1, bytes).value();
  stored.identity.level = static_cast<std::uint64_t>(IntegrityLevel::kFull);
  const auto move = [&](bool to_device, DeviceSpan memory) {
    const OnDrive drive{&store->file(stored), stored};
    const DeviceTensor tensor{device->get(), memory, std::nullopt, stream};
    std::promise<Result<std::uint64_t>> done;
    const auto keep = [&done](Result<std::uint64_t> result) { done.set_value(std::move(result)); };
    const auto info = bytes_info("the.tensor", bytes);
    staging->move(
        to_device ? TransferRequest{info, drive, tensor} : TransferRequest{info, tensor, drive},
        keep);
    return done.get_future().get();
  };
  const Result<std::uint64_t> written = move(false, source);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  stored.identity.checksum = *written;
  EXPECT_EQ(*written, checksum(IntegrityLevel::kFull, content));
  const Result<std::uint64_t> read = move(true, target);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  std::ranges::fill(host.span(), std::byte{});
  ASSERT_TRUE((*device)->copy_out(host.span().first(bytes), target, stream));
  const EventId copied = *(*device)->make_event();
  ASSERT_TRUE((*device)->record(copied, stream));
  ASSERT_TRUE((*device)->wait(copied));
  EXPECT_TRUE(same_bytes(host.span().first(bytes), content));
  (*device)->destroy_event(copied);
  (*device)->destroy_stream(stream);
  (*device)->release(source);
  (*device)->release(target);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceStagingOver, testing::Values("host:0", "cuda:0", "hip:0"),
                         [](const auto& tested) {
                           const std::string name = tested.param;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace
}  // namespace penstock
