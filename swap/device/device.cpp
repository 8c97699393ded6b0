#include "swap/device/device.h"

#include <fmt/format.h>

namespace penstock {

Result<void> Device::check_sizes(DeviceSpan device, std::uint64_t host_bytes) {
  if (device.bytes == host_bytes) {
    return {};
  }
  return fault(
      Fault::kInvalidArgument,
      fmt::format("{} bytes of a device and {} of the host are no copy", device.bytes, host_bytes));
}

PinHook pinned_for(std::shared_ptr<Device> device) {
  return {
      .pin = [device](std::span<std::byte> memory) { return device->pin(memory); },
      .unpin = [device](std::span<std::byte> memory) { device->unpin(memory); },
  };
}

}  // namespace penstock
