#include "swap/device/cuda_device.h"

// Where CUDA's headers were missing when penstock was built.

namespace penstock {
namespace {

Error absent() {
  return fault(Fault::kUnsupported, "this penstock was built without CUDA's headers (cuda.h)");
}

}  // namespace

Result<std::vector<DeviceFacts>> list_cuda_devices() {
  return absent();
}

Result<std::shared_ptr<Device>> open_cuda_device(std::uint32_t) {
  return absent();
}

}  // namespace penstock
