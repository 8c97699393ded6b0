#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <random>

#include "swap/device/host_device.h"
#include "swap/transfer/dtype_conversion.h"
#include "tests/alloc/same_bytes.h"
#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

/// An engine opened for a simulated device, whose memory is the host's here: looked at only when
/// nothing is under way there.
class SwapEngineDeviceTest : public EngineFixture {
 protected:
  void open_for_device(std::uint64_t max_pinned_bytes, std::uint64_t ram_bytes,
                       std::uint64_t seed = 1, EngineConfig config = {}) {
    engine_.reset();
    device_ = HostDevice::make({.seed = seed});
    devices_ = {device_};
    open(max_pinned_bytes, ram_bytes, std::move(config));
  }
  void TearDown() override {
    engine_.reset();
    if (device_) {
      EXPECT_EQ(device_->pinned_bytes(), 0U);
      EXPECT_EQ(device_->unpinned_copies(), 0U);
    }
  }

  static std::span<std::byte> bytes_of(DeviceSpan memory) {
    return {reinterpret_cast<std::byte*>(memory.address), memory.bytes};
  }
  DeviceTensor filled(const std::vector<std::byte>& data) {
    const DeviceSpan memory = *device_->allocate(data.size());
    copy_bytes(data, bytes_of(memory).data());
    return {.device = device_.get(), .memory = memory};
  }
  DeviceTensor empty(std::uint64_t bytes) {
    return {.device = device_.get(), .memory = *device_->allocate(bytes)};
  }
  void put_from_device(TensorId tensor, const std::vector<std::byte>& data) {
    const DeviceTensor source = filled(data);
    const Result<void> done = engine_->put_from_device(tensor, source).wait();
    ASSERT_TRUE(done.has_value()) << done.error().message;
    device_->release(source.memory);
  }
  void expect_on_device(TensorId tensor, const std::vector<std::byte>& data) {
    const DeviceTensor target = empty(data.size());
    const Result<void> done = engine_->get_to_device(tensor, target).wait();
    ASSERT_TRUE(done.has_value()) << done.error().message;
    EXPECT_TRUE(same_bytes(bytes_of(target.memory), data));
    device_->release(target.memory);
  }

  std::shared_ptr<HostDevice> device_;
};

TEST_F(SwapEngineDeviceTest, LargerThanAllThatIsPinned) {
  open_for_device(6 * kMiB, 0);
  const TensorId tensor = declare("embedding", 9 * kMiB + 3);
  put_from_device(tensor, content(9 * kMiB + 3, 1));
  EXPECT_LE(device_->pinned_bytes(), 6 * kMiB);
  EXPECT_TRUE(engine_->state(tensor)->on_drive);
  EXPECT_FALSE(engine_->state(tensor)->in_memory);
  expect_on_device(tensor, content(9 * kMiB + 3, 1));
  EXPECT_EQ(engine_->stats().tensor_read_bytes, 9 * kMiB + 3);
  expect_content(tensor, content(9 * kMiB + 3, 1));
  EXPECT_EQ(engine_->stats().from_device_bytes, 9 * kMiB + 3);
  EXPECT_EQ(engine_->stats().to_device_bytes, 9 * kMiB + 3);
  EXPECT_EQ(engine_->stats().staging_bytes, 6 * kMiB / 4);
}

TEST_F(SwapEngineDeviceTest, ASlotIsCopiedAsItIsAndFreeWithTheCopy) {
  open_for_device(8 * kMiB, 0);
  std::vector<TensorId> tensors;
  for (std::size_t i = 0; i < 8; ++i) {
    tensors.push_back(declare(numbered(i), kMiB));
    put(tensors.back(), content(kMiB, static_cast<unsigned>(i)));
  }
  (void)engine_->plan();
  const std::uint64_t overflows = engine_->stats().pool.overflows;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      expect_on_device(tensors[i], content(kMiB, static_cast<unsigned>(i)));
    }
  }
  EXPECT_GT(engine_->stats().hits + engine_->stats().late, 0U) << "read ahead into slots";
  EXPECT_EQ(engine_->stats().pool.overflows, overflows);
}

TEST_F(SwapEngineDeviceTest, ResidentsComeAndGoWithoutADrive) {
  open_for_device(6 * kMiB, 8 * kMiB);
  const TensorId tensor = declare("resident", 3 * kMiB);
  put_from_device(tensor, content(3 * kMiB, 1));
  EXPECT_TRUE(engine_->state(tensor)->resident);
  expect_on_device(tensor, content(3 * kMiB, 1));
  put_from_device(tensor, content(3 * kMiB, 2));
  expect_on_device(tensor, content(3 * kMiB, 2));
  expect_content(tensor, content(3 * kMiB, 2));
  EXPECT_EQ(engine_->stats().io.write_bytes, 0U);
}

TEST_F(SwapEngineDeviceTest, ConvertsWhereItIsAsked) {
  open_for_device(6 * kMiB, 0);
  const TensorId tensor =
      engine_->declare(space_, {"master", DType::kF32, {1000, 300}, Role::kMaster}).value();
  const std::vector<std::byte> narrow = content(1000 * 300 * 2, 1);
  DeviceTensor source = filled(narrow);
  source.dtype = DType::kBF16;
  ASSERT_TRUE(engine_->put_from_device(tensor, source).wait().has_value());
  std::vector<std::byte> wide(narrow.size() * 2);
  convert(DType::kBF16, narrow, DType::kF32, wide);
  expect_content(tensor, wide);
  expect_on_device(tensor, wide);
  DeviceTensor target = empty(narrow.size());
  target.dtype = DType::kBF16;
  ASSERT_TRUE(engine_->get_to_device(tensor, target).wait().has_value());
  std::vector<std::byte> expected(narrow.size());
  convert(DType::kF32, wide, DType::kBF16, expected);
  EXPECT_TRUE(same_bytes(bytes_of(target.memory), expected));
}

TEST_F(SwapEngineDeviceTest, AWrongRequestIsAnErrorAndNothingIsLost) {
  open_for_device(6 * kMiB, 0);
  const TensorId tensor = declare("t", 100 * kKiB);
  put(tensor, content(100 * kKiB, 1));
  const auto other = HostDevice::make({.number = 3});
  DeviceTensor target = empty(100 * kKiB);
  target.device = other.get();
  EXPECT_THAT(engine_->get_to_device(tensor, target).wait().error().message,
              HasSubstr("not opened for host:3"));
  target.device = nullptr;
  EXPECT_THAT(engine_->put_from_device(tensor, target).wait().error().message,
              HasSubstr("no device is named"));
  const Result<void> small = engine_->get_to_device(tensor, empty(100)).wait();
  EXPECT_EQ(small.error().code, make_error_code(Fault::kWrongSize));
  DeviceTensor numbers = empty(400 * kKiB);
  numbers.dtype = DType::kF32;
  EXPECT_EQ(engine_->put_from_device(tensor, numbers).wait().error().code,
            make_error_code(Fault::kInvalidArgument));
  expect_on_device(tensor, content(100 * kKiB, 1));
}

TEST_F(SwapEngineDeviceTest, ADeviceThatFailsLeavesTheContentBefore) {
  std::vector<std::byte> host(100 * kKiB);
  for (const std::uint64_t ram : {std::uint64_t{0}, std::uint64_t{kMiB}}) {
    open_for_device(6 * kMiB, ram);
    const TensorId tensor = declare("t", 100 * kKiB);
    put(tensor, content(100 * kKiB, 1));
    const DeviceTensor stray{
        .device = device_.get(),
        .memory = {reinterpret_cast<std::uintptr_t>(host.data()), host.size()}};
    const Ticket refused = engine_->put_from_device(tensor, stray);
    expect_content(tensor, content(100 * kKiB, 1));
    ASSERT_TRUE(refused.wait().has_error());
    EXPECT_EQ(refused.wait().error().tensor, "t");
    expect_on_device(tensor, content(100 * kKiB, 1));
    EXPECT_TRUE(engine_->get_to_device(tensor, stray).wait().has_error());
    put_from_device(tensor, content(100 * kKiB, 2));
    expect_on_device(tensor, content(100 * kKiB, 2));
    EXPECT_TRUE(engine_->check().has_value()) << "reported by the ticket";
  }
}

TEST_F(SwapEngineDeviceTest, AFullDriveSpillsIntoRamOrLeavesTheContentBefore) {
  open_for_device(6 * kMiB, 0);
  space_ = engine_->open_namespace("small", {{directory_.path(), std::nullopt, 3 * kMiB}}).value();
  const TensorId tensor = declare("t", 2 * kMiB);
  put_from_device(tensor, content(2 * kMiB, 1));
  const DeviceTensor source = filled(content(2 * kMiB, 2));
  const Ticket refused = engine_->put_from_device(tensor, source);
  ASSERT_TRUE(refused.wait().has_error());
  EXPECT_EQ(refused.wait().error().system_errno(), ENOSPC) << refused.wait().error().message;
  EXPECT_THAT(refused.wait().error().message, HasSubstr("last good content is unchanged"));
  expect_on_device(tensor, content(2 * kMiB, 1));

  open_for_device(6 * kMiB, 2 * kMiB);
  space_ = engine_->open_namespace("small", {{directory_.path(), std::nullopt, 3 * kMiB}}).value();
  const TensorId other = declare("other", kMiB);
  put(other, content(kMiB, 9));
  const TensorId large = declare("large", 2 * kMiB);
  put_from_device(large, content(2 * kMiB, 1));  // no room beside the other in RAM
  EXPECT_TRUE(engine_->state(large)->on_drive);
  ASSERT_TRUE(engine_->forget(other).has_value());
  put_from_device(large, content(2 * kMiB, 2));
  expect_on_device(large, content(2 * kMiB, 2));
}

TEST_F(SwapEngineDeviceTest, ClosesAfterWhatIsUnderWay) {
  open_for_device(6 * kMiB, 0);
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < 8; ++i) {
    tickets.push_back(
        engine_->put_from_device(declare(numbered(i), 300 * kKiB), filled(content(300 * kKiB, 1))));
  }
  ASSERT_TRUE(engine_->close().has_value());
  for (const Ticket& ticket : tickets) {
    EXPECT_TRUE(ticket.done());
    EXPECT_TRUE(ticket.wait().has_value());
  }
  const DeviceTensor target = empty(300 * kKiB);
  EXPECT_TRUE(engine_->get_to_device(TensorId{1}, target).wait().has_error());
}

TEST_F(SwapEngineDeviceTest, WhereNothingGoesPastHostMemoryTheReasonIsReported) {
  EngineConfig config;
  config.direct_storage_setting = "aio.use_gds";
  open_for_device(6 * kMiB, 0, 1, config);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("aio.use_gds: contents go to and from host:0 through host"));
  EXPECT_THAT(warnings_[0], HasSubstr("checksums"));
  config.integrity = IntegrityLevel::kOff;
  open_for_device(6 * kMiB, 0, 1, config);
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_THAT(warnings_[1],
              HasSubstr("no library moves bytes between drives and devices of 'host'"));
  const TensorId tensor = declare("t", 100 * kKiB);
  put_from_device(tensor, content(100 * kKiB, 1));
  expect_on_device(tensor, content(100 * kKiB, 1));
}

TEST_F(SwapEngineDeviceTest, SeveralDevicesShareTheBudget) {
  // One where there is a node, one where there is none: what is refused is done without.
  device_ = HostDevice::make({.seed = 1, .numa_node = 0});
  const auto second = HostDevice::make({.seed = 2, .number = 1, .numa_node = 63});
  devices_ = {device_, second};
  open(8 * kMiB, 0);
  const TensorId tensor = declare("t", 3 * kMiB + 1);
  put_from_device(tensor, content(3 * kMiB + 1, 1));
  const DeviceTensor there{.device = second.get(), .memory = *second->allocate(3 * kMiB + 1)};
  ASSERT_TRUE(engine_->get_to_device(tensor, there).wait().has_value());
  EXPECT_TRUE(same_bytes(bytes_of(there.memory), content(3 * kMiB + 1, 1)));
  EXPECT_EQ(engine_->stats().staging_bytes, 2 * kMiB);
  EXPECT_LE(device_->pinned_bytes(), 8 * kMiB);
  EXPECT_EQ(second->pinned_bytes(), 0U) << "what one has pinned all reach";
  EXPECT_EQ(second->unpinned_copies(), 0U);
}

TEST_F(SwapEngineDeviceTest, TooLittleToStageThrough) {
  SwapEngineOptions options;
  Budgets budgets;
  budgets.max_pinned_bytes = 500 * kKiB;
  options.budgets = budgets;
  options.devices = {HostDevice::make()};
  const auto refused = SwapEngine::open(std::move(options));
  ASSERT_TRUE(refused.has_error());
  EXPECT_THAT(refused.error().message, HasSubstr("must be 512.0 KiB at least"));
}

TEST_F(SwapEngineDeviceTest, TheSmallestBudgetThatIsNamedHoldsWhatDevicesTake) {
  const auto refusal_with = [this](std::uint64_t max_pinned_bytes) {
    open_for_device(max_pinned_bytes, 0);
    const TensorId tensor = declare("t", 100 * kKiB);
    put(tensor, content(100 * kKiB, 1));
    const Result<Lease> lease = engine_->get(tensor).lease();
    return lease.has_error() ? lease.error().message : std::string();
  };
  const std::string refusal = refusal_with(4 * kMiB);
  EXPECT_THAT(refusal, HasSubstr("that is without 1.0 MiB of max_pinned_bytes"));
  const std::string phrase = "the smallest value that works is ";
  ASSERT_THAT(refusal, HasSubstr(phrase));
  const std::uint64_t smallest = std::stoull(refusal.substr(refusal.find(phrase) + phrase.size()));
  EXPECT_EQ(refusal_with(smallest), "");
  EXPECT_NE(refusal_with(smallest - kBlockBytes), "");
}

/// Everything that a runtime may do to a few tensors, in any order, without waiting: what is read
/// is always the newest content, and the device's memory is left alone when a ticket is done.
TEST_F(SwapEngineDeviceTest, TheNewestContentWhereverItComesFrom) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    open_for_device((6 + random() % 4) * kMiB, random() % 3 * 64 * kKiB, seed);
    struct Known {
      TensorId id;
      std::vector<std::byte> content;
      std::vector<std::pair<Ticket, DeviceTensor>> gets;
    };
    std::vector<Known> tensors;
    std::vector<std::pair<Ticket, std::vector<std::byte>>> host_puts;
    std::vector<std::pair<Ticket, DeviceTensor>> puts;
    const auto settle_gets = [&](Known& known) {
      for (const auto& [ticket, target] : known.gets) {
        ASSERT_TRUE(ticket.wait().has_value()) << ticket.wait().error().message;
        ASSERT_TRUE(same_bytes(bytes_of(target.memory), known.content));
        device_->release(target.memory);
      }
      known.gets.clear();
    };
    for (std::size_t i = 0; i < 3; ++i) {
      const std::uint64_t bytes = 1 + random() % (60 * kKiB);
      tensors.push_back(
          {declare(numbered(i), bytes), content(bytes, static_cast<unsigned>(i)), {}});
      put(tensors.back().id, tensors.back().content);
    }
    for (unsigned step = 0; step < 12; ++step) {
      Known& known = tensors[random() % tensors.size()];
      const std::uint64_t bytes = known.content.size();
      switch (random() % 6) {
        case 0:
          known.gets.emplace_back(Ticket(), empty(bytes));
          known.gets.back().first = engine_->get_to_device(known.id, known.gets.back().second);
          break;
        case 1:
          settle_gets(known);
          known.content = content(bytes, 100 + step);
          puts.emplace_back(Ticket(), filled(known.content));
          puts.back().first = engine_->put_from_device(known.id, puts.back().second);
          break;
        case 2:
          settle_gets(known);
          known.content = content(bytes, 200 + step);
          host_puts.emplace_back(Ticket(), known.content);
          host_puts.back().first = engine_->put(known.id, host_puts.back().second);
          break;
        case 3:
          settle_gets(known);
          known.content = content(bytes, 300 + step);
          (void)commit(known.id, known.content);
          break;
        case 4: {
          std::vector<std::byte> target(bytes);
          ASSERT_TRUE(engine_->get_into(known.id, target).wait().has_value());
          ASSERT_EQ(target, known.content);
          break;
        }
        default:
          expect_content(known.id, known.content);
      }
    }
    for (Known& known : tensors) {
      settle_gets(known);
      expect_on_device(known.id, known.content);
    }
    for (const auto& [ticket, source] : puts) {
      ASSERT_TRUE(ticket.wait().has_value()) << ticket.wait().error().message;
      device_->release(source.memory);
    }
    for (const auto& [ticket, source] : host_puts) {
      ASSERT_TRUE(ticket.wait().has_value());
    }
    TearDown();
    device_.reset();
    if (HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace penstock
