#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "alloc/result.h"
#include "swap/device/device.h"
#include "swap/plan/inventory.h"

namespace penstock {

/// Which way bytes go between a device and host memory or a drive.
enum class DeviceDirection : std::uint8_t { kToDevice, kFromDevice };

/// A tensor's elements in the memory of an accelerator, as the owner of that memory describes them.
/// Nothing else touches it until the transfer is done.
struct DeviceTensor {
  const Device* device = nullptr;
  DeviceSpan memory = {};
  std::optional<DType> dtype = {};  ///< of what lies there; nothing: the tensor's own
  /// What was begun there so far happens before any copy. Nothing: the caller has seen to that.
  std::optional<StreamId> stream = StreamId{};
};

/// Errors: there is no conversion between the two types (kInvalidArgument); the memory is not of
/// the tensor's size in its type (kWrongSize).
Result<void> check_device_tensor(const TensorInfo& info, const DeviceTensor& tensor);

}  // namespace penstock
