#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "swap/device/device.h"

namespace penstock {

/// One runtime of accelerators, as it is on this machine.
struct DeviceRuntime {
  std::string_view name;             ///< `cuda`, `hip`: as Device::runtime() says
  std::vector<DeviceFacts> devices;  ///< that it shows this process
  std::string reason;                ///< why there are none; empty where there are
};

/// Opens the library of every runtime that penstock knows and asks for its devices. Blocks for as
/// long as a driver takes to begin (a second, where nothing keeps it awake). What a machine has not
/// is no error.
std::vector<DeviceRuntime> look_for_devices();

/// `cuda:0`, `hip:1`; without a number the first. `host:0` is a simulated one whose memory is all
/// of the host's: so what stages for devices runs where there is none. Errors: no such runtime
/// (kInvalidArgument), or what keeps it or the device from working.
Result<std::shared_ptr<Device>> open_device(std::string_view name);

}  // namespace penstock
