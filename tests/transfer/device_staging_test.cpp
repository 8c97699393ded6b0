#include "swap/transfer/device_staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
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
#include "tests/transfer/device_staging_fixture.h"
#include "tests/transfer/transfer_outcome.h"

namespace penstock {
namespace {

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
