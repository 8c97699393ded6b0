#pragma once

// The plain C functions alone: overloads have no one type.
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <hip/hip_runtime_api.h>

#include <memory>
#include <string>

#include "alloc/result.h"
#include "swap/device/dynamic_library.h"

// What is called of AMD's runtime: `CALL(name)` each.
#define PENSTOCK_HIP_CALLS(CALL) \
  CALL(hipInit)                  \
  CALL(hipGetErrorName)          \
  CALL(hipGetErrorString)        \
  CALL(hipGetDeviceCount)        \
  CALL(hipGetDevice)             \
  CALL(hipSetDevice)             \
  CALL(hipDeviceGetName)         \
  CALL(hipDeviceTotalMem)        \
  CALL(hipDeviceGetPCIBusId)     \
  CALL(hipHostRegister)          \
  CALL(hipHostUnregister)        \
  CALL(hipMalloc)                \
  CALL(hipFree)                  \
  CALL(hipMemcpyAsync)           \
  CALL(hipStreamCreateWithFlags) \
  CALL(hipStreamDestroy)         \
  CALL(hipStreamWaitEvent)       \
  CALL(hipEventCreateWithFlags)  \
  CALL(hipEventDestroy)          \
  CALL(hipEventRecord)           \
  CALL(hipEventQuery)            \
  CALL(hipEventSynchronize)

namespace penstock {

/// AMD's runtime (libamdhip64.so), opened while the program runs. Immutable.
struct HipRuntime {
  /// Errors (kUnsupported): no such library, one that lacks a function, or no device that it can
  /// use.
  static Result<std::shared_ptr<const HipRuntime>> load();

  /// What `result` says, after `doing`: "HIP cannot pin 64.0 MiB: out of memory
  /// (hipErrorOutOfMemory 2)".
  Error error(hipError_t result, const std::string& doing) const;
  Result<void> check(hipError_t result, const std::string& doing) const {
    return result == hipSuccess ? Result<void>() : error(result, doing);
  }

#define PENSTOCK_DECLARE(name) decltype(&::name) name = nullptr;
  PENSTOCK_HIP_CALLS(PENSTOCK_DECLARE)
#undef PENSTOCK_DECLARE
};

}  // namespace penstock
