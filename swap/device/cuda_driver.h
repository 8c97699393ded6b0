#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "alloc/result.h"
#include "swap/device/dynamic_library.h"

// What is called of NVIDIA's driver library: `CALL(name)` each. The header renames some to the
// version of the interface that it describes (cuMemFree is cuMemFree_v2), and the expanded name is
// the symbol too, so that types and symbols cannot disagree.
#define PENSTOCK_CUDA_CALLS(CALL) \
  CALL(cuInit)                    \
  CALL(cuGetErrorName)            \
  CALL(cuGetErrorString)          \
  CALL(cuDeviceGetCount)          \
  CALL(cuDeviceGet)               \
  CALL(cuDeviceGetName)           \
  CALL(cuDeviceTotalMem)          \
  CALL(cuDeviceGetPCIBusId)       \
  CALL(cuDevicePrimaryCtxRetain)  \
  CALL(cuDevicePrimaryCtxRelease) \
  CALL(cuCtxPushCurrent)          \
  CALL(cuCtxPopCurrent)           \
  CALL(cuMemHostRegister)         \
  CALL(cuMemHostUnregister)       \
  CALL(cuMemAlloc)                \
  CALL(cuMemFree)                 \
  CALL(cuMemcpyHtoDAsync)         \
  CALL(cuMemcpyDtoHAsync)         \
  CALL(cuStreamCreate)            \
  CALL(cuStreamDestroy)           \
  CALL(cuStreamWaitEvent)         \
  CALL(cuEventCreate)             \
  CALL(cuEventDestroy)            \
  CALL(cuEventRecord)             \
  CALL(cuEventQuery)              \
  CALL(cuEventSynchronize)

namespace penstock {

/// NVIDIA's driver library (libcuda.so.1, which comes with the driver and not with the toolkit),
/// opened while the program runs. Immutable.
struct CudaDriver {
  /// Errors (kUnsupported): no such library, one that lacks a function, or no device that it can
  /// use.
  static Result<std::shared_ptr<const CudaDriver>> load();

  /// What `result` says, after `doing`: "CUDA cannot pin 64.0 MiB: out of memory
  /// (CUDA_ERROR_OUT_OF_MEMORY)".
  Error error(CUresult result, const std::string& doing) const;
  Result<void> check(CUresult result, const std::string& doing) const {
    return result == CUDA_SUCCESS ? Result<void>() : error(result, doing);
  }

#define PENSTOCK_DECLARE(name) decltype(&::name) name = nullptr;
  PENSTOCK_CUDA_CALLS(PENSTOCK_DECLARE)
#undef PENSTOCK_DECLARE
};

}  // namespace penstock
