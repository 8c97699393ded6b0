#include "swap/device/device.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock {

Result<void> Device::check_sizes(DeviceSpan device, std::uint64_t host_bytes) {
  if (device.bytes == host_bytes) {
    return {};
  }
  return fault(
      Fault::kInvalidArgument,
      fmt::format("{} bytes of a device and {} of the host are no copy", device.bytes, host_bytes));
}

std::vector<PinHook> pinned_for(std::span<const std::shared_ptr<Device>> devices) {
  std::vector<PinHook> hooks;
  for (auto device = devices.begin(); device != devices.end(); ++device) {
    const bool is_reached = std::any_of(devices.begin(), device, [&](const auto& earlier) {
      return earlier->runtime() == (*device)->runtime();
    });
    if (!is_reached) {
      hooks.push_back({
          .pin = [pins = *device](std::span<std::byte> memory) { return pins->pin(memory); },
          .unpin = [pins = *device](std::span<std::byte> memory) { pins->unpin(memory); },
      });
    }
  }
  return hooks;
}

}  // namespace penstock
