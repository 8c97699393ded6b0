#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <variant>
#include <vector>

#include "alloc/bytes.h"
#include "swap/device/device.h"

namespace penstock {

struct HostDeviceOptions {
  std::uint64_t seed = 1;
  std::uint32_t number = 0;
  std::uint64_t memory_bytes = kGiB;
  std::uint64_t pin_limit_bytes = ~std::uint64_t{0};  ///< pin() beyond it fails, as a driver's may
  std::optional<std::uint32_t> numa_node = {};
  bool any_memory = false;  ///< all host memory counts as its own
};

/// A device of host memory whose streams run when somebody asks for an event: each question moves
/// them on by a few steps that the seed chooses, any stream before any other, copies in pieces. So
/// a buffer that is written to, or unpinned, before its event has happened shows in the bytes or
/// stops the program, and the same seed does the same again as long as one thread asks. Copies from
/// and to host memory that is not pinned happen before the call returns, as a driver's may.
class HostDevice final : public Device {
 public:
  static std::shared_ptr<HostDevice> make(HostDeviceOptions options = {});
  explicit HostDevice(HostDeviceOptions options);
  ~HostDevice() override;

  std::string_view runtime() const noexcept override { return "host"; }
  Result<void> pin(std::span<std::byte> memory) override;
  void unpin(std::span<std::byte> memory) noexcept override;
  Result<DeviceSpan> allocate(std::uint64_t bytes) override;
  void release(DeviceSpan memory) noexcept override;
  Result<StreamId> make_stream() override;
  void destroy_stream(StreamId stream) noexcept override;
  Result<void> copy_in(DeviceSpan target, std::span<const std::byte> source,
                       StreamId stream) override;
  Result<void> copy_out(std::span<std::byte> target, DeviceSpan source, StreamId stream) override;
  Result<EventId> make_event() override;
  void destroy_event(EventId event) noexcept override;
  Result<void> record(EventId event, StreamId stream) override;
  Result<bool> happened(EventId event) override;
  Result<void> wait(EventId event) override;
  Result<void> hold(StreamId stream, EventId event) override;

  /// Copies whose host side was not pinned: where everything should have been, none.
  std::uint64_t unpinned_copies() const;
  std::uint64_t pinned_bytes() const;

 private:
  struct Copy {
    std::byte* target;
    const std::byte* source;
    std::uint64_t bytes;
    std::span<const std::byte> host;  // its side outside the device
  };
  struct Mark {  // the event's `turn`-th record happens here
    EventId event;
    std::uint64_t turn;
  };
  struct Hold {  // nothing behind it begins before that
    EventId event;
    std::uint64_t turn;
  };
  using Work = std::variant<Copy, Mark, Hold>;
  using Stream = std::deque<Work>;
  struct Event {
    std::uint64_t recorded = 0;
    std::uint64_t happened = 0;
  };
  using Lock = std::lock_guard<std::mutex>;

  Result<Stream*> stream_of(StreamId stream);
  Result<Event*> event_of(EventId event);
  Result<void> check_device_side(DeviceSpan memory) const;
  Result<void> begin_copy(const Copy& copy, StreamId stream);

  // Moves some stream on by a step; false where none can.
  bool step();
  bool can_step(const Stream& stream) const;
  void step(Stream& stream);
  void finish(Stream& stream);

  const HostDeviceOptions options_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::uintptr_t next_handle_ = 1;
  std::map<StreamId, Stream> streams_;
  std::map<EventId, Event> events_;
  std::map<std::uintptr_t, std::vector<std::byte>> memory_;  // by address
  std::map<const std::byte*, std::uint64_t> pinned_;         // by this device: begin -> bytes
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t pinned_bytes_ = 0;
  std::uint64_t unpinned_copies_ = 0;
};

}  // namespace penstock
