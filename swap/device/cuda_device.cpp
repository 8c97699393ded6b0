#include "swap/device/cuda_device.h"

#include "swap/device/cuda_driver.h"
#include "swap/device/runtime_device.h"

namespace penstock {

Result<std::vector<DeviceFacts>> list_cuda_devices() {
  return list_devices<CudaDriver>();
}

Result<std::shared_ptr<Device>> open_cuda_device(std::uint32_t number) {
  return open_runtime_device<CudaDriver>(number);
}

}  // namespace penstock
