#include "swap/device/hip_device.h"

// Where HIP's headers were missing when penstock was built.

namespace penstock {
namespace {

Error absent() {
  return fault(Fault::kUnsupported,
               "this penstock was built without HIP's headers (hip/hip_runtime_api.h)");
}

}  // namespace

Result<std::vector<DeviceFacts>> list_hip_devices() {
  return absent();
}

Result<std::shared_ptr<Device>> open_hip_device(std::uint32_t) {
  return absent();
}

}  // namespace penstock
