#pragma once

#include "swap/device/hip_runtime.h"

namespace penstock {

/// Makes a device the calling thread's while it lives.
class HipCurrent {
 public:
  HipCurrent(const HipRuntime& hip, int device) : hip_(hip) {
    result_ = hip.hipGetDevice(&before_);
    if (result_ == hipSuccess && before_ != device) {
      result_ = hip.hipSetDevice(device);
      changed_ = result_ == hipSuccess;
    }
  }
  ~HipCurrent() {
    if (changed_) {
      (void)hip_.hipSetDevice(before_);
    }
  }
  HipCurrent(const HipCurrent&) = delete;
  HipCurrent& operator=(const HipCurrent&) = delete;

  /// `call`, or why the device could not be made current.
  template <class Call>
  hipError_t run(Call call) const {
    return result_ == hipSuccess ? call() : result_;
  }

 private:
  const HipRuntime& hip_;
  int before_ = 0;
  hipError_t result_ = hipSuccess;
  bool changed_ = false;
};

}  // namespace penstock
