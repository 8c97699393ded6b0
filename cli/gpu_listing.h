#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

/// An accelerator as the system's files show it; no GPU library is opened for that.
struct Gpu {
  std::string name;     ///< the driver's name for it, or maker and device number
  std::string driver;   ///< nvidia, amdgpu, i915…; empty where none is bound
  bool usable = false;  ///< its device file is there and this user may open it
  std::string reason;   ///< why not
};

std::vector<Gpu> list_gpus();

}  // namespace penstock::cli
