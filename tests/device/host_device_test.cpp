#include "swap/device/host_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "alloc/page_source.h"

namespace penstock {
namespace {

constexpr std::uint64_t kChunkBytes = 4 * kKiB;
constexpr std::size_t kChunks = 3;
constexpr std::size_t kTransfers = 20;

/// A few pinned chunks, through which many contents go to the device.
struct Ring {
  explicit Ring(std::uint64_t seed) : device(HostDevice::make({.seed = seed})) {
    memory = *PageSource::make()->allocate(kChunks * kChunkBytes);
    EXPECT_TRUE(device->pin(memory.span()));
    target = *device->allocate(kTransfers * kChunkBytes);
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      events.push_back(*device->make_event());
      streams.push_back(*device->make_stream());
    }
  }
  std::span<std::byte> chunk(std::size_t number) const {
    return memory.span().subspan(number * kChunkBytes, kChunkBytes);
  }
  // Fills chunks in turn; `careful` waits for a chunk's event before it is written to again.
  void send_all(bool careful) const {
    for (std::size_t transfer = 0; transfer < kTransfers; ++transfer) {
      const std::size_t slot = transfer % kChunks;
      if (careful) {
        ASSERT_TRUE(device->wait(events[slot]));
      } else {
        (void)device->happened(events[slot]);
      }
      std::memset(chunk(slot).data(), static_cast<int>(transfer + 1), kChunkBytes);
      ASSERT_TRUE(device->copy_in(target.part(transfer * kChunkBytes, kChunkBytes), chunk(slot),
                                  streams[slot]));
      ASSERT_TRUE(device->record(events[slot], streams[slot]));
    }
    for (const EventId event : events) {
      ASSERT_TRUE(device->wait(event));
    }
  }
  // Transfers whose bytes are not all there.
  std::size_t damaged() const {
    const auto* const bytes = reinterpret_cast<const std::byte*>(target.address);
    std::size_t count = 0;
    for (std::size_t transfer = 0; transfer < kTransfers; ++transfer) {
      const std::vector<std::byte> expected(kChunkBytes, static_cast<std::byte>(transfer + 1));
      count +=
          std::memcmp(bytes + transfer * kChunkBytes, expected.data(), kChunkBytes) != 0 ? 1U : 0U;
    }
    return count;
  }

  std::shared_ptr<HostDevice> device;
  Memory memory;
  DeviceSpan target;
  std::vector<EventId> events;
  std::vector<StreamId> streams;
};

TEST(HostDevice, WaitingForEventsKeepsEveryByte) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Ring ring(seed);
    ring.send_all(true);
    ASSERT_EQ(ring.damaged(), 0U) << "seed " << seed;
    ASSERT_EQ(ring.device->unpinned_copies(), 0U);
  }
}

TEST(HostDevice, AChunkUsedTooEarlyShows) {
  std::size_t seeds_that_show_it = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Ring ring(seed);
    ring.send_all(false);
    seeds_that_show_it += ring.damaged() != 0 ? 1U : 0U;
  }
  EXPECT_GT(seeds_that_show_it, 90U);
}

TEST(HostDevice, TheSameSeedDoesTheSameAgain) {
  const auto damage = [](std::uint64_t seed) {
    const Ring ring(seed);
    ring.send_all(false);
    return ring.damaged();
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(damage(seed), damage(seed));
  }
}

TEST(HostDevice, StreamsPassEachOther) {
  bool first_came_first = false;
  bool second_came_first = false;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Ring ring(seed);
    for (std::size_t slot = 0; slot < 2; ++slot) {
      ASSERT_TRUE(ring.device->copy_in(ring.target.part(0, kChunkBytes), ring.chunk(slot),
                                       ring.streams[slot]));
      ASSERT_TRUE(ring.device->record(ring.events[slot], ring.streams[slot]));
    }
    ASSERT_TRUE(ring.device->wait(ring.events[1]));
    // Not asked again: a question moves the streams on.
    const bool first_is_there = ring.device->happened(ring.events[0]).value();
    (first_is_there ? first_came_first : second_came_first) = true;
    ASSERT_TRUE(ring.device->wait(ring.events[0]));
  }
  EXPECT_TRUE(first_came_first && second_came_first);
}

TEST(HostDevice, WhatIsNotPinnedIsCounted) {
  const Ring ring(1);
  const std::vector<std::byte> pageable(kChunkBytes);
  ASSERT_TRUE(ring.device->copy_in(ring.target.part(0, kChunkBytes), pageable, StreamId{}));
  EXPECT_EQ(ring.device->unpinned_copies(), 1U);
  EXPECT_EQ(ring.device->pinned_bytes(), ring.memory.bytes());
}

TEST(HostDevice, PinsNoMoreThanItsLimit) {
  const auto device = HostDevice::make({.pin_limit_bytes = 2 * kBlockBytes});
  const Memory memory = *PageSource::make()->allocate(4 * kBlockBytes);
  EXPECT_EQ(device->pin(memory.span().first(3 * kBlockBytes)).error().code,
            make_error_code(Fault::kExhausted));
  EXPECT_TRUE(device->pin(memory.span().first(kBlockBytes)));
  EXPECT_EQ(device->pinned_bytes(), kBlockBytes);
  device->unpin(memory.span().first(kBlockBytes));
  EXPECT_EQ(device->pinned_bytes(), 0U);
}

TEST(HostDevice, MemoryThatIsNotItsOwn) {
  const auto device = HostDevice::make();
  std::vector<std::byte> bytes(kBlockBytes);
  const DeviceSpan stray{reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size()};
  EXPECT_TRUE(device->copy_in(stray, bytes, StreamId{}).has_error());
  EXPECT_TRUE(device->copy_out(bytes, stray, StreamId{}).has_error());
  const DeviceSpan memory = *device->allocate(kBlockBytes);
  EXPECT_TRUE(device->copy_in(memory.part(1, kBlockBytes), bytes, StreamId{}).has_error());
  EXPECT_TRUE(device->copy_in(memory, bytes, StreamId{77}).has_error());
  EXPECT_TRUE(device->record(EventId{77}, StreamId{}).has_error());
  EXPECT_TRUE(device->happened(EventId{77}).has_error());
  device->release(memory);
}

TEST(HostDeviceDeathTest, UnpinningUnderACopy) {
  const Ring ring(1);
  ASSERT_TRUE(
      ring.device->copy_in(ring.target.part(0, kChunkBytes), ring.chunk(0), ring.streams[0]));
  EXPECT_DEATH(ring.device->unpin(ring.memory.span()), "copy under way");
}

}  // namespace
}  // namespace penstock
