#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/mutex.h"
#include "swap/device/device.h"
#include "swap/device/host_streams.h"

namespace penstock {

struct HostDeviceOptions {
  std::uint64_t seed = 1;
  std::uint32_t number = 0;
  std::uint64_t memory_bytes = kGiB;
  std::uint64_t pin_limit_bytes = ~std::uint64_t{0};  ///< pin() beyond it fails, as a driver's may
  std::optional<std::uint32_t> numa_node = {};
  bool any_memory = false;  ///< all host memory counts as its own
};

/// A device of host memory whose streams run when a caller asks for an event: each question moves
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
  Result<void> check_device_side(DeviceSpan memory) const PENSTOCK_REQUIRES(mutex_);
  Result<void> begin_copy(const HostStreams::Copy& copy, StreamId stream) PENSTOCK_REQUIRES(mutex_);

  const HostDeviceOptions options_;
  mutable Mutex mutex_;
  HostStreams streams_ PENSTOCK_GUARDED_BY(mutex_);
  std::map<std::uintptr_t, std::vector<std::byte>> memory_
      PENSTOCK_GUARDED_BY(mutex_);  // by address
  std::map<const std::byte*, std::uint64_t> pinned_
      PENSTOCK_GUARDED_BY(mutex_);  // by this device: begin -> bytes
  std::uint64_t allocated_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::uint64_t pinned_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::uint64_t unpinned_copies_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock
