#pragma once

#include "swap/device/cuda_driver.h"

namespace penstock {

/// Makes a context the calling thread's while it lives.
class CudaCurrent {
 public:
  CudaCurrent(const CudaDriver& driver, CUcontext context)
      : driver_(driver), result_(driver.cuCtxPushCurrent(context)) {}
  ~CudaCurrent() {
    CUcontext before = nullptr;
    if (result_ == CUDA_SUCCESS) {
      (void)driver_.cuCtxPopCurrent(&before);
    }
  }
  CudaCurrent(const CudaCurrent&) = delete;
  CudaCurrent& operator=(const CudaCurrent&) = delete;

  /// `call`, or why the context could not be made current.
  template <class Call>
  CUresult run(Call call) const {
    return result_ == CUDA_SUCCESS ? call() : result_;
  }

 private:
  const CudaDriver& driver_;
  const CUresult result_;
};

}  // namespace penstock
