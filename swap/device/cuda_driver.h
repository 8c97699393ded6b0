#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "alloc/result.h"
#include "swap/device/dynamic_library.h"

// What is called of NVIDIA's driver library.
#define PENSTOCK_CUDA_CALLS(CALL)                  \
  CALL(begin, cuInit)                              \
  CALL(error_name, cuGetErrorName)                 \
  CALL(error_text, cuGetErrorString)               \
  CALL(count, cuDeviceGetCount)                    \
  CALL(device, cuDeviceGet)                        \
  CALL(name, cuDeviceGetName)                      \
  CALL(total_memory, cuDeviceTotalMem)             \
  CALL(pci_address, cuDeviceGetPCIBusId)           \
  CALL(retain_context, cuDevicePrimaryCtxRetain)   \
  CALL(release_context, cuDevicePrimaryCtxRelease) \
  CALL(push_context, cuCtxPushCurrent)             \
  CALL(pop_context, cuCtxPopCurrent)               \
  CALL(pin, cuMemHostRegister)                     \
  CALL(unpin, cuMemHostUnregister)                 \
  CALL(allocate, cuMemAlloc)                       \
  CALL(release, cuMemFree)                         \
  CALL(copy_in, cuMemcpyHtoDAsync)                 \
  CALL(copy_out, cuMemcpyDtoHAsync)                \
  CALL(make_stream, cuStreamCreate)                \
  CALL(destroy_stream, cuStreamDestroy)            \
  CALL(hold, cuStreamWaitEvent)                    \
  CALL(make_event, cuEventCreate)                  \
  CALL(destroy_event, cuEventDestroy)              \
  CALL(record, cuEventRecord)                      \
  CALL(query, cuEventQuery)                        \
  CALL(synchronize, cuEventSynchronize)

namespace penstock {

class CudaContext;

/// NVIDIA's driver library (libcuda.so.1, which comes with the driver and not with the toolkit),
/// opened while the program runs by load_runtime(). Immutable then.
struct CudaDriver {
  using Status = CUresult;
  using Stream = CUstream;
  using Event = CUevent;
  using Address = CUdeviceptr;
  using Context = CudaContext;
  static constexpr const char* kRuntime = "cuda";
  static constexpr const char* kTitle = "CUDA";
  static constexpr const char* kCannotBegin = "CUDA cannot begin";
  static constexpr std::array kLibraries{"libcuda.so.1", "libcuda.so"};
  static constexpr CUresult kSuccess = CUDA_SUCCESS;
  static constexpr CUresult kNotReady = CUDA_ERROR_NOT_READY;
  static constexpr unsigned kPinFlags = CU_MEMHOSTREGISTER_PORTABLE;
  static constexpr unsigned kStreamFlags = CU_STREAM_NON_BLOCKING;
  static constexpr unsigned kEventFlags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;

  PENSTOCK_CALLS(PENSTOCK_CUDA_CALLS)

  Result<CUdevice> device_of(std::uint32_t number) const;
  /// What `result` says, after `doing`: "CUDA cannot pin 64.0 MiB: out of memory
  /// (CUDA_ERROR_OUT_OF_MEMORY)".
  Error error(CUresult result, const std::string& doing) const;
  Result<void> check(CUresult result, const std::string& doing) const {
    return result == CUDA_SUCCESS ? Result<void>() : error(result, doing);
  }
};

/// A device's primary context, which torch and the CUDA runtime use too; kept while this lives.
class CudaContext {
 public:
  static Result<std::unique_ptr<const CudaContext>> retain(std::shared_ptr<const CudaDriver> driver,
                                                           std::uint32_t number);
  CudaContext(std::shared_ptr<const CudaDriver> driver, CUdevice device, CUcontext context)
      : driver_(std::move(driver)), device_(device), context_(context) {}
  ~CudaContext() { (void)driver_->release_context(device_); }
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const CudaDriver& api() const noexcept { return *driver_; }
  /// `call`, which does not throw, in this context; or why that could not be made current.
  template <class Call>
  CUresult run(Call call) const {
    if (const CUresult pushed = driver_->push_context(context_); pushed != CUDA_SUCCESS) {
      return pushed;
    }
    const CUresult result = call();
    CUcontext popped = nullptr;
    (void)driver_->pop_context(&popped);
    return result;
  }

 private:
  const std::shared_ptr<const CudaDriver> driver_;
  const CUdevice device_;
  const CUcontext context_;
};

}  // namespace penstock
