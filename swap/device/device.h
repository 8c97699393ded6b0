#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/pin_hook.h"
#include "alloc/result.h"

namespace penstock {

/// A runtime's own handle (CUstream, hipStream_t) as a number, as torch gives it too. 0: the
/// device's default stream. What is begun on one stream happens in that order.
enum class StreamId : std::uintptr_t {};
/// A runtime's own handle (CUevent, hipEvent_t).
enum class EventId : std::uintptr_t {};

/// Memory of a device. Never dereferenced here.
struct DeviceSpan {
  std::uintptr_t address = 0;
  std::uint64_t bytes = 0;

  DeviceSpan part(std::uint64_t offset, std::uint64_t length) const noexcept {
    return {address + offset, length};
  }
};

/// What a device is, read once.
struct DeviceFacts {
  std::uint32_t number =
      0;  ///< as its runtime counts them: after CUDA_VISIBLE_DEVICES and the like
  std::string name;
  std::uint64_t memory_bytes = 0;
  std::string pci_address;                 ///< 0000:3b:00.0; empty where it has none
  std::optional<std::uint32_t> numa_node;  ///< whose memory it reaches at least cost
};

/// An accelerator with memory of its own: pins host memory for it, and moves bytes in order of
/// streams without a waiting thread. Every function but wait() returns at once, may be called from
/// any thread, and leaves the calling thread's current device as it was. Handles are the caller's
/// to destroy, before the device.
///
/// Errors: the runtime's, by name and text. After one that the runtime calls sticky every later
/// call fails with it too.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// `cuda`, `hip`, `host`.
  virtual std::string_view runtime() const noexcept = 0;
  const DeviceFacts& facts() const noexcept { return facts_; }

  /// Lets the device reach whole pages of host memory by itself, at their exact size: neither pages
  /// nor bytes are added. All devices of its runtime reach it then, and none of them may pin it
  /// again. Unpin with the very span, when no copy is under way there.
  virtual Result<void> pin(std::span<std::byte> memory) = 0;
  virtual void unpin(std::span<std::byte> memory) noexcept = 0;

  virtual Result<DeviceSpan> allocate(std::uint64_t bytes) = 0;
  virtual void release(DeviceSpan memory) noexcept = 0;

  /// A stream that waits for no other, the default one included.
  virtual Result<StreamId> make_stream() = 0;
  virtual void destroy_stream(StreamId stream) noexcept = 0;

  /// Begins to copy; both sides stay as they are until an event recorded after it has happened.
  /// From memory that is not pinned the call itself may take as long as the copy.
  virtual Result<void> copy_in(DeviceSpan target, std::span<const std::byte> source,
                               StreamId stream) = 0;
  virtual Result<void> copy_out(std::span<std::byte> target, DeviceSpan source,
                                StreamId stream) = 0;

  virtual Result<EventId> make_event() = 0;
  virtual void destroy_event(EventId event) noexcept = 0;
  /// `event` happens when all that was begun on `stream` so far is done. May be recorded again.
  virtual Result<void> record(EventId event, StreamId stream) = 0;
  /// Whether it has happened; true for one that was never recorded.
  virtual Result<bool> happened(EventId event) = 0;
  /// Blocks until it has happened, without spinning.
  virtual Result<void> wait(EventId event) = 0;
  /// What is begun on `stream` from now on begins after `event`. Blocks no thread.
  virtual Result<void> hold(StreamId stream, EventId event) = 0;

 protected:
  explicit Device(DeviceFacts facts) : facts_(std::move(facts)) {}

  /// Both sides of a copy are of one size.
  static Result<void> check_sizes(DeviceSpan device, std::uint64_t host_bytes);

 private:
  const DeviceFacts facts_;
};

/// Hooks that pin memory for `devices`: one hook for each runtime.
std::vector<PinHook> pinned_for(std::span<const std::shared_ptr<Device>> devices);

}  // namespace penstock
