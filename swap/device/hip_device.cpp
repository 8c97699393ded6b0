#include "swap/device/hip_device.h"

#include "swap/device/hip_runtime.h"
#include "swap/device/runtime_device.h"

namespace penstock {

Result<std::vector<DeviceFacts>> list_hip_devices() {
  return list_devices<HipRuntime>();
}

Result<std::shared_ptr<Device>> open_hip_device(std::uint32_t number) {
  return open_runtime_device<HipRuntime>(number);
}

}  // namespace penstock
