#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "swap/device/cuda_device.h"
#include "swap/device/hip_device.h"
#include "swap/device/host_device.h"

namespace penstock {
namespace {

/// A device under test. An error says why this machine has none.
struct DeviceCase {
  std::string name;
  Result<std::shared_ptr<Device>> (*make)();
};

std::ostream& operator<<(std::ostream& out, const DeviceCase& device) {
  return out << device.name;
}

/// Pinned host memory and as much of the device, with an event for what is under way.
class Lane {
 public:
  Lane(Device& device, std::uint64_t bytes) : device_(device), bytes_(bytes) {
    host_ = *PageSource::make()->allocate(bytes);
    EXPECT_TRUE(device.pin(host_.span()));
    memory = *device.allocate(bytes);
    stream = *device.make_stream();
    event = *device.make_event();
  }
  ~Lane() {
    (void)device_.wait(event);
    device_.destroy_event(event);
    device_.destroy_stream(stream);
    device_.release(memory);
    device_.unpin(host_.span());
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  std::span<std::byte> host() const { return host_.span().first(bytes_); }
  void fill(std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    for (std::byte& byte : host()) {
      byte = static_cast<std::byte>(random());
    }
  }
  std::vector<std::byte> content() const { return {host().begin(), host().end()}; }
  // Waits for all that was begun on the stream.
  void finish() const {
    ASSERT_TRUE(device_.record(event, stream));
    ASSERT_TRUE(device_.wait(event));
    EXPECT_EQ(device_.happened(event).value(), true);
  }

  /// What the device has comes to the host's side, and is there.
  void fetch() const {
    std::ranges::fill(host(), std::byte{});
    ASSERT_TRUE(device_.copy_out(host(), memory, stream));
    finish();
  }

  DeviceSpan memory;
  StreamId stream{};
  EventId event{};

 private:
  Device& device_;
  std::uint64_t bytes_;
  Memory host_;
};

/// What swap/device/device.h promises of every device.
class DeviceContract : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<Device>> device = GetParam().make();
    if (device.has_error()) {
      GTEST_SKIP() << device.error().message;
    }
    device_ = std::move(*device);
  }

  std::shared_ptr<Device> device_;
};

TEST_P(DeviceContract, TellsWhatItIs) {
  EXPECT_EQ(device_->runtime(), GetParam().name);
  EXPECT_EQ(device_->facts().number, 0U);
  EXPECT_FALSE(device_->facts().name.empty());
  EXPECT_GE(device_->facts().memory_bytes, kGiB);
}

TEST_P(DeviceContract, BytesComeBackAsTheyWent) {
  const Lane lane(*device_, 5 * kMiB);
  lane.fill(1);
  const std::vector<std::byte> before = lane.content();
  ASSERT_TRUE(device_->copy_in(lane.memory, lane.host(), lane.stream));
  lane.finish();
  lane.fetch();
  EXPECT_EQ(lane.content(), before);
}

TEST_P(DeviceContract, PartsOfItsMemory) {
  const Lane lane(*device_, kMiB);
  lane.fill(2);
  const std::vector<std::byte> before = lane.content();
  constexpr std::uint64_t kPart = 1000;  // no power of two, no page
  for (std::uint64_t offset = 0; offset < kMiB; offset += kPart) {
    const std::uint64_t bytes = std::min(kPart, kMiB - offset);
    ASSERT_TRUE(device_->copy_in(lane.memory.part(offset, bytes),
                                 lane.host().subspan(offset, bytes), lane.stream));
  }
  lane.finish();
  lane.fetch();
  EXPECT_EQ(lane.content(), before);
}

TEST_P(DeviceContract, AStreamKeepsItsOrder) {
  const Lane first(*device_, kMiB);
  const Lane second(*device_, kMiB);
  for (std::uint64_t round = 0; round < 8; ++round) {
    first.fill(round);
    second.fill(100 + round);
    ASSERT_TRUE(device_->copy_in(first.memory, first.host(), first.stream));
    ASSERT_TRUE(device_->copy_in(first.memory, second.host(), first.stream));
    ASSERT_TRUE(device_->copy_out(first.host(), first.memory, first.stream));
    first.finish();
    ASSERT_EQ(first.content(), second.content());
  }
}

TEST_P(DeviceContract, AHeldStreamBeginsAfterTheEvent) {
  const Lane writer(*device_, 4 * kMiB);
  const Lane reader(*device_, 4 * kMiB);
  for (std::uint64_t round = 0; round < 8; ++round) {
    writer.fill(round);
    std::ranges::fill(reader.host(), std::byte{});
    ASSERT_TRUE(device_->copy_in(writer.memory, writer.host(), writer.stream));
    ASSERT_TRUE(device_->record(writer.event, writer.stream));
    ASSERT_TRUE(device_->hold(reader.stream, writer.event));
    ASSERT_TRUE(device_->copy_out(reader.host(), writer.memory, reader.stream));
    reader.finish();
    ASSERT_EQ(reader.content(), writer.content());
    EXPECT_EQ(device_->happened(writer.event).value(), true);
  }
}

TEST_P(DeviceContract, AnEventThatWasNeverRecordedHasHappened) {
  const EventId event = *device_->make_event();
  EXPECT_EQ(device_->happened(event).value(), true);
  EXPECT_TRUE(device_->wait(event));
  device_->destroy_event(event);
}

TEST_P(DeviceContract, AskingUntilItHasHappened) {
  const Lane lane(*device_, kMiB);
  lane.fill(3);
  ASSERT_TRUE(device_->copy_in(lane.memory, lane.host(), lane.stream));
  ASSERT_TRUE(device_->record(lane.event, lane.stream));
  for (;;) {
    const Result<bool> happened = device_->happened(lane.event);
    ASSERT_TRUE(happened.has_value()) << happened.error().message;
    if (*happened) {
      break;
    }
    std::this_thread::yield();
  }
}

TEST_P(DeviceContract, TheDefaultStream) {
  const Lane lane(*device_, kMiB);
  lane.fill(4);
  const std::vector<std::byte> before = lane.content();
  ASSERT_TRUE(device_->copy_in(lane.memory, lane.host(), StreamId{}));
  ASSERT_TRUE(device_->record(lane.event, StreamId{}));
  ASSERT_TRUE(device_->wait(lane.event));
  std::ranges::fill(lane.host(), std::byte{});
  ASSERT_TRUE(device_->copy_out(lane.host(), lane.memory, StreamId{}));
  ASSERT_TRUE(device_->record(lane.event, StreamId{}));
  ASSERT_TRUE(device_->wait(lane.event));
  EXPECT_EQ(lane.content(), before);
}

TEST_P(DeviceContract, MemoryThatIsNotPinnedWorksToo) {
  const Lane lane(*device_, kMiB);
  std::vector<std::byte> pageable(kMiB, std::byte{7});
  ASSERT_TRUE(device_->copy_in(lane.memory, pageable, lane.stream));
  ASSERT_TRUE(device_->copy_out(lane.host(), lane.memory, lane.stream));
  lane.finish();
  EXPECT_EQ(lane.content(), pageable);
}

TEST_P(DeviceContract, PinsWhatIsAskedAndAgain) {
  const Memory memory = *PageSource::make()->allocate(3 * kBlockBytes);
  for (int round = 0; round < 3; ++round) {
    const Result<void> pinned = device_->pin(memory.span());
    ASSERT_TRUE(pinned.has_value()) << pinned.error().message;
    const Result<void> twice = device_->pin(memory.span());
    EXPECT_TRUE(twice.has_error());
    device_->unpin(memory.span());
  }
}

TEST_P(DeviceContract, BothSidesAreOfOneSize) {
  const Lane lane(*device_, kMiB);
  const Result<void> in = device_->copy_in(lane.memory, lane.host().first(100), lane.stream);
  const Result<void> out = device_->copy_out(lane.host(), lane.memory.part(0, 100), lane.stream);
  for (const Result<void>& wrong : {in, out}) {
    ASSERT_TRUE(wrong.has_error());
    EXPECT_EQ(wrong.error().code, make_error_code(Fault::kInvalidArgument));
  }
}

TEST_P(DeviceContract, MoreThanItHasIsAnErrorAndNothingElse) {
  const Result<DeviceSpan> all = device_->allocate(device_->facts().memory_bytes + kGiB);
  ASSERT_TRUE(all.has_error());
  EXPECT_EQ(all.error().code, make_error_code(Fault::kExhausted)) << all.error().message;
  const Lane lane(*device_, kMiB);
  lane.fill(5);
  ASSERT_TRUE(device_->copy_in(lane.memory, lane.host(), lane.stream));
  lane.finish();
}

TEST_P(DeviceContract, ManyThreadsWithAStreamEach) {
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      const Lane lane(*device_, 256 * kKiB);
      for (std::uint64_t round = 0; round < 8; ++round) {
        lane.fill(thread * 100 + round);
        const std::vector<std::byte> before = lane.content();
        ASSERT_TRUE(device_->copy_in(lane.memory, lane.host(), lane.stream));
        lane.finish();
        std::ranges::fill(lane.host(), std::byte{});
        ASSERT_TRUE(device_->copy_out(lane.host(), lane.memory, lane.stream));
        lane.finish();
        ASSERT_EQ(lane.content(), before);
      }
    });
  }
}

Result<std::shared_ptr<Device>> make_host() {
  return std::shared_ptr<Device>(HostDevice::make({.memory_bytes = 2 * kGiB}));
}
Result<std::shared_ptr<Device>> make_cuda() {
  return open_cuda_device(0);
}
Result<std::shared_ptr<Device>> make_hip() {
  return open_hip_device(0);
}

INSTANTIATE_TEST_SUITE_P(Every, DeviceContract,
                         testing::Values(DeviceCase{"host", make_host},
                                         DeviceCase{"cuda", make_cuda},
                                         DeviceCase{"hip", make_hip}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace penstock
