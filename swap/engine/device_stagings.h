#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "alloc/pin_hook.h"
#include "swap/engine/engine_context.h"
#include "swap/engine/tensor_record.h"
#include "swap/transfer/device_staging.h"
#include "swap/transfer/device_tensor.h"

namespace penstock {

/// The chunks through which contents go to and from the devices of an engine. Thread-safe once
/// opened.
class DeviceStagings {
 public:
  explicit DeviceStagings(EngineContext& context) : context_(context) {}

  /// Chunks for every device, taken from `max_pinned_bytes` before the pool gets the rest. Errors:
  /// there is too little of it; the device's.
  Result<void> open(const std::vector<PinHook>& hooks, std::uint64_t max_pinned_bytes);
  /// Waits for every transfer.
  void close() noexcept { stagings_.clear(); }

  /// Of all devices, where max_pinned_bytes is so much.
  std::uint64_t bytes_of(std::uint64_t max_pinned_bytes) const;
  /// Of all devices, as they were opened.
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Errors: a device that the engine was not opened for.
  Result<DeviceStaging*> of(const DeviceTensor& tensor) const;
  /// Errors: as that; as check_device_tensor()'s.
  Result<DeviceStaging*> check(const TensorRecord& record, const DeviceTensor& tensor) const
      PENSTOCK_NEEDS_LOCK;
  /// Whether memory comes back, or I/O goes on, by this very thread, which must not wait for that.
  bool on_own_thread() const;

 private:
  std::shared_ptr<DirectStorage> direct_storage_of(const Device& device) const;

  EngineContext& context_;
  std::vector<std::unique_ptr<DeviceStaging>> stagings_;  // as options.devices
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock
