#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "alloc/result.h"
#include "swap/device/device.h"

namespace penstock {

/// The devices that NVIDIA's driver shows this process. Errors (kUnsupported): there is no driver
/// library, one too old, or none that works; or penstock was built without CUDA's headers.
Result<std::vector<DeviceFacts>> list_cuda_devices();

/// One of them, in its primary context, which torch and the CUDA runtime use too. The context is
/// kept until the device goes. Errors: as above, or no such device.
Result<std::shared_ptr<Device>> open_cuda_device(std::uint32_t number);

}  // namespace penstock
