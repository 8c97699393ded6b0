#include "swap/device/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "alloc/check.h"
#include "swap/device/host_pins.h"

namespace penstock {
namespace {

DeviceFacts facts_of(const HostDeviceOptions& options) {
  return {options.number,
          fmt::format("simulated device {}", options.number),
          options.memory_bytes,
          {},
          options.numa_node};
}

Error wrong(std::string what) {
  return fault(Fault::kInvalidArgument, "the simulated device: " + std::move(what));
}

}  // namespace

std::shared_ptr<HostDevice> HostDevice::make(HostDeviceOptions options) {
  return std::make_shared<HostDevice>(options);
}

HostDevice::HostDevice(HostDeviceOptions options)
    : Device(facts_of(options)), options_(options), streams_(options.seed) {}

HostDevice::~HostDevice() {
  for (const auto& [begin, bytes] : pinned_) {
    HostPins::of_process().remove({begin, bytes});
  }
}

// --- Host memory --------------------------------------------------------------------------------

Result<void> HostDevice::pin(std::span<std::byte> memory) {
  const MutexLock lock(mutex_);
  if (memory.empty() || !is_aligned(memory.data(), kBlockBytes)) {
    return wrong("only whole pages can be pinned");
  }
  if (memory.size() >
      options_.pin_limit_bytes - std::min(pinned_bytes_, options_.pin_limit_bytes)) {
    return fault(Fault::kExhausted, "the simulated device cannot pin so much");
  }
  if (!HostPins::of_process().add(memory)) {
    return wrong("this memory is pinned already");
  }
  pinned_.emplace(memory.data(), memory.size());
  pinned_bytes_ += memory.size();
  return {};
}

void HostDevice::unpin(std::span<std::byte> memory) noexcept {
  const MutexLock lock(mutex_);
  const auto found = pinned_.find(memory.data());
  PENSTOCK_CHECK(found != pinned_.end() && found->second == memory.size(),
                 "{} bytes are unpinned that were not pinned so", memory.size());
  streams_.check_unused(memory);
  pinned_bytes_ -= memory.size();
  pinned_.erase(found);
  HostPins::of_process().remove(memory);
}

// --- Its own memory -----------------------------------------------------------------------------

Result<DeviceSpan> HostDevice::allocate(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes == 0 || bytes > options_.memory_bytes - allocated_bytes_) {
    return fault(Fault::kExhausted, fmt::format("the simulated device has no {} bytes", bytes));
  }
  std::vector<std::byte> memory(bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  memory_.emplace(address, std::move(memory));
  allocated_bytes_ += bytes;
  return DeviceSpan{address, bytes};
}

void HostDevice::release(DeviceSpan memory) noexcept {
  const MutexLock lock(mutex_);
  const auto found = memory_.find(memory.address);
  PENSTOCK_CHECK(found != memory_.end() && found->second.size() == memory.bytes,
                 "{} bytes are released that were not allocated so", memory.bytes);
  streams_.finish_all();  // as a driver does, which waits here
  allocated_bytes_ -= memory.bytes;
  memory_.erase(found);
}

Result<void> HostDevice::check_device_side(DeviceSpan memory) const {
  if (options_.any_memory) {
    return {};
  }
  const auto next = memory_.upper_bound(memory.address);
  if (next != memory_.begin()) {
    const auto& [begin, bytes] = *std::prev(next);
    const std::uint64_t offset = memory.address - begin;
    if (offset <= bytes.size() && memory.bytes <= bytes.size() - offset) {
      return {};
    }
  }
  return wrong(fmt::format("{} bytes that are not its memory", memory.bytes));
}

// --- Streams and events -------------------------------------------------------------------------

Result<StreamId> HostDevice::make_stream() {
  const MutexLock lock(mutex_);
  return streams_.make_stream();
}

void HostDevice::destroy_stream(StreamId stream) noexcept {
  const MutexLock lock(mutex_);
  streams_.destroy_stream(stream);
}

Result<void> HostDevice::copy_in(DeviceSpan target, std::span<const std::byte> source,
                                 StreamId stream) {
  const MutexLock lock(mutex_);
  PENSTOCK_TRY(check_device_side(target));
  PENSTOCK_TRY(check_sizes(target, source.size()));
  return begin_copy(
      {reinterpret_cast<std::byte*>(target.address), source.data(), target.bytes, source}, stream);
}

Result<void> HostDevice::copy_out(std::span<std::byte> target, DeviceSpan source, StreamId stream) {
  const MutexLock lock(mutex_);
  PENSTOCK_TRY(check_device_side(source));
  PENSTOCK_TRY(check_sizes(source, target.size()));
  return begin_copy(
      {target.data(), reinterpret_cast<const std::byte*>(source.address), source.bytes, target},
      stream);
}

/// Copies whose host side is not pinned happen at once.
Result<void> HostDevice::begin_copy(const HostStreams::Copy& copy, StreamId stream) {
  const bool is_pinned = HostPins::of_process().contain(copy.host);
  PENSTOCK_TRY(streams_.copy(copy, stream,
                             is_pinned ? HostStreams::Until::kLater : HostStreams::Until::kReturn));
  unpinned_copies_ += is_pinned || copy.bytes == 0 ? 0U : 1U;
  return {};
}

Result<EventId> HostDevice::make_event() {
  const MutexLock lock(mutex_);
  return streams_.make_event();
}

void HostDevice::destroy_event(EventId event) noexcept {
  const MutexLock lock(mutex_);
  streams_.destroy_event(event);
}

Result<void> HostDevice::record(EventId event, StreamId stream) {
  const MutexLock lock(mutex_);
  return streams_.record(event, stream);
}

Result<bool> HostDevice::happened(EventId event) {
  const MutexLock lock(mutex_);
  return streams_.happened(event);
}

Result<void> HostDevice::wait(EventId event) {
  const MutexLock lock(mutex_);
  return streams_.wait(event);
}

Result<void> HostDevice::hold(StreamId stream, EventId event) {
  const MutexLock lock(mutex_);
  return streams_.hold(stream, event);
}

std::uint64_t HostDevice::unpinned_copies() const {
  const MutexLock lock(mutex_);
  return unpinned_copies_;
}

std::uint64_t HostDevice::pinned_bytes() const {
  const MutexLock lock(mutex_);
  return pinned_bytes_;
}

}  // namespace penstock
