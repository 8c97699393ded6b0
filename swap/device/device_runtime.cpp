#include "swap/device/device_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "alloc/excerpt.h"
#include "swap/device/cuda_device.h"
#include "swap/device/hip_device.h"
#include "swap/device/host_device.h"

namespace penstock {
namespace {

struct Runtime {
  std::string_view name;
  Result<std::vector<DeviceFacts>> (*list)();
  Result<std::shared_ptr<Device>> (*open)(std::uint32_t number);
};

Result<std::shared_ptr<Device>> open_host_device(std::uint32_t number) {
  return std::shared_ptr<Device>(HostDevice::make({.number = number, .any_memory = true}));
}

constexpr std::array kRuntimes{Runtime{"cuda", list_cuda_devices, open_cuda_device},
                               Runtime{"hip", list_hip_devices, open_hip_device}};

constexpr std::string_view kSimulated = "host";

Error no_such_device(std::string_view name) {
  return fault(
      Fault::kInvalidArgument,
      fmt::format("'{}' is no device: cuda, hip, or one of theirs as cuda:0 are", excerpt(name)));
}

}  // namespace

std::vector<DeviceRuntime> look_for_devices() {
  std::vector<DeviceRuntime> all;
  for (const Runtime& runtime : kRuntimes) {
    Result<std::vector<DeviceFacts>> devices = runtime.list();
    DeviceRuntime& found = all.emplace_back();
    found.name = runtime.name;
    if (devices.has_error()) {
      found.reason = devices.error().message;
    } else if (devices->empty()) {
      found.reason = "it shows this process no device";
    } else {
      found.devices = std::move(*devices);
    }
  }
  return all;
}

Result<std::shared_ptr<Device>> open_device(std::string_view name) {
  const std::string_view of = name.substr(0, name.find(':'));
  const auto runtime = std::ranges::find(kRuntimes, of, &Runtime::name);
  if (runtime == kRuntimes.end() && of != kSimulated) {
    return no_such_device(name);
  }
  std::uint32_t number = 0;
  if (of.size() != name.size()) {
    const std::string_view text = name.substr(of.size() + 1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) {
      return no_such_device(name);
    }
  }
  return of == kSimulated ? open_host_device(number) : runtime->open(number);
}

}  // namespace penstock
