#include "swap/device/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "alloc/check.h"
#include "swap/device/host_pins.h"

namespace penstock {
namespace {

constexpr std::uint64_t kStepsMax = 3;   // for one question
constexpr std::uint64_t kPiecesMax = 4;  // of a copy

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

bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) {
  const std::less<const std::byte*> before;
  return before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

}  // namespace

std::shared_ptr<HostDevice> HostDevice::make(HostDeviceOptions options) {
  return std::make_shared<HostDevice>(options);
}

HostDevice::HostDevice(HostDeviceOptions options)
    : Device(facts_of(options)), options_(options), random_(options.seed) {
  streams_[StreamId{}];  // the default one
}

HostDevice::~HostDevice() {
  for (const auto& [begin, bytes] : pinned_) {
    HostPins::of_process().remove({begin, bytes});
  }
}

// --- Host memory --------------------------------------------------------------------------------

Result<void> HostDevice::pin(std::span<std::byte> memory) {
  const Lock lock(mutex_);
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
  const Lock lock(mutex_);
  const auto found = pinned_.find(memory.data());
  PENSTOCK_CHECK(found != pinned_.end() && found->second == memory.size(),
                 "{} bytes are unpinned that were not pinned so", memory.size());
  for (const auto& [stream, works] : streams_) {
    for (const Work& work : works) {
      const Copy* const copy = std::get_if<Copy>(&work);
      PENSTOCK_CHECK(copy == nullptr || !overlap(copy->host, memory),
                     "memory is unpinned with a copy under way in stream {}",
                     static_cast<std::uintptr_t>(stream));
    }
  }
  pinned_bytes_ -= memory.size();
  pinned_.erase(found);
  HostPins::of_process().remove(memory);
}

// --- Its own memory -----------------------------------------------------------------------------

Result<DeviceSpan> HostDevice::allocate(std::uint64_t bytes) {
  const Lock lock(mutex_);
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
  const Lock lock(mutex_);
  const auto found = memory_.find(memory.address);
  PENSTOCK_CHECK(found != memory_.end() && found->second.size() == memory.bytes,
                 "{} bytes are released that were not allocated so", memory.bytes);
  for (auto& [id, stream] : streams_) {
    finish(stream);  // as a driver does, which waits here
  }
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

// --- Streams ------------------------------------------------------------------------------------

Result<StreamId> HostDevice::make_stream() {
  const Lock lock(mutex_);
  const StreamId id{next_handle_++};
  streams_[id];
  return id;
}

void HostDevice::destroy_stream(StreamId stream) noexcept {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  PENSTOCK_CHECK(found != streams_.end() && stream != StreamId{}, "there is no such stream");
  finish(found->second);
  streams_.erase(found);
}

Result<HostDevice::Stream*> HostDevice::stream_of(StreamId stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) {
    return wrong("there is no such stream");
  }
  return &found->second;
}

Result<void> HostDevice::copy_in(DeviceSpan target, std::span<const std::byte> source,
                                 StreamId stream) {
  const Lock lock(mutex_);
  PENSTOCK_TRY(check_device_side(target));
  PENSTOCK_TRY(check_sizes(target, source.size()));
  return begin_copy(
      {reinterpret_cast<std::byte*>(target.address), source.data(), target.bytes, source}, stream);
}

Result<void> HostDevice::copy_out(std::span<std::byte> target, DeviceSpan source, StreamId stream) {
  const Lock lock(mutex_);
  PENSTOCK_TRY(check_device_side(source));
  PENSTOCK_TRY(check_sizes(source, target.size()));
  return begin_copy(
      {target.data(), reinterpret_cast<const std::byte*>(source.address), source.bytes, target},
      stream);
}

Result<void> HostDevice::begin_copy(const Copy& copy, StreamId stream) {
  const Result<Stream*> found = stream_of(stream);
  PENSTOCK_TRY(found);
  if (copy.bytes == 0) {
    return {};
  }
  (*found)->push_back(copy);
  if (!HostPins::of_process().contain(copy.host)) {
    ++unpinned_copies_;
    finish(**found);
  }
  return {};
}

// --- Events -------------------------------------------------------------------------------------

Result<EventId> HostDevice::make_event() {
  const Lock lock(mutex_);
  const EventId id{next_handle_++};
  events_[id];
  return id;
}

void HostDevice::destroy_event(EventId event) noexcept {
  const Lock lock(mutex_);
  PENSTOCK_CHECK(events_.erase(event) == 1, "there is no such event");
}

Result<HostDevice::Event*> HostDevice::event_of(EventId event) {
  const auto found = events_.find(event);
  if (found == events_.end()) {
    return wrong("there is no such event");
  }
  return &found->second;
}

Result<void> HostDevice::record(EventId event, StreamId stream) {
  const Lock lock(mutex_);
  const Result<Event*> marked = event_of(event);
  PENSTOCK_TRY(marked);
  const Result<Stream*> found = stream_of(stream);
  PENSTOCK_TRY(found);
  (*found)->push_back(Mark{event, ++(*marked)->recorded});
  return {};
}

Result<bool> HostDevice::happened(EventId event) {
  const Lock lock(mutex_);
  const Result<Event*> found = event_of(event);
  PENSTOCK_TRY(found);
  for (std::uint64_t steps = random_() % (kStepsMax + 1); steps > 0 && step(); --steps) {
  }
  return (*found)->happened >= (*found)->recorded;
}

Result<void> HostDevice::wait(EventId event) {
  const Lock lock(mutex_);
  const Result<Event*> found = event_of(event);
  PENSTOCK_TRY(found);
  while ((*found)->happened < (*found)->recorded) {
    PENSTOCK_CHECK(step(), "an event is waited for that cannot happen");
  }
  return {};
}

Result<void> HostDevice::hold(StreamId stream, EventId event) {
  const Lock lock(mutex_);
  const Result<Event*> awaited = event_of(event);
  PENSTOCK_TRY(awaited);
  const Result<Stream*> found = stream_of(stream);
  PENSTOCK_TRY(found);
  (*found)->push_back(Hold{event, (*awaited)->recorded});
  return {};
}

// --- What happens -------------------------------------------------------------------------------

bool HostDevice::can_step(const Stream& stream) const {
  if (stream.empty()) {
    return false;
  }
  const Hold* const hold = std::get_if<Hold>(&stream.front());
  if (hold == nullptr) {
    return true;
  }
  const auto event = events_.find(hold->event);
  return event == events_.end() || event->second.happened >= hold->turn;
}

bool HostDevice::step() {
  std::vector<Stream*> ready;
  for (auto& [id, stream] : streams_) {
    if (can_step(stream)) {
      ready.push_back(&stream);
    }
  }
  if (ready.empty()) {
    return false;
  }
  step(*ready[random_() % ready.size()]);
  return true;
}

void HostDevice::step(Stream& stream) {
  Work& work = stream.front();
  if (Copy* const copy = std::get_if<Copy>(&work)) {
    const std::uint64_t bytes =
        std::min(copy->bytes, copy->bytes / (1 + random_() % kPiecesMax) + 1);
    std::memcpy(copy->target, copy->source, bytes);
    copy->target += bytes;
    copy->source += bytes;
    copy->bytes -= bytes;
    if (copy->bytes > 0) {
      return;
    }
  } else if (const Mark* const mark = std::get_if<Mark>(&work)) {
    if (const auto event = events_.find(mark->event); event != events_.end()) {
      event->second.happened = std::max(event->second.happened, mark->turn);
    }
  }
  stream.pop_front();
}

void HostDevice::finish(Stream& stream) {
  while (!stream.empty()) {
    if (can_step(stream)) {
      step(stream);
    } else {
      PENSTOCK_CHECK(step(), "a stream waits for an event that cannot happen");
    }
  }
}

std::uint64_t HostDevice::unpinned_copies() const {
  const Lock lock(mutex_);
  return unpinned_copies_;
}

std::uint64_t HostDevice::pinned_bytes() const {
  const Lock lock(mutex_);
  return pinned_bytes_;
}

}  // namespace penstock
