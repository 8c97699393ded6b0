#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "alloc/result.h"
#include "swap/device/device.h"

namespace penstock {

/// The devices that AMD's runtime shows this process. Errors (kUnsupported): there is no runtime,
/// one too old, or none that works; or penstock was built without HIP's headers.
Result<std::vector<DeviceFacts>> list_hip_devices();

/// One of them. Errors: as above, or no such device.
Result<std::shared_ptr<Device>> open_hip_device(std::uint32_t number);

}  // namespace penstock
