#pragma once

// The plain C functions alone: overloads have no one type.
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <hip/hip_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "alloc/result.h"
#include "swap/device/dynamic_library.h"

// What is called of AMD's runtime.
#define PENSTOCK_HIP_CALLS(CALL)              \
  CALL(begin, hipInit)                        \
  CALL(error_name, hipGetErrorName)           \
  CALL(error_text, hipGetErrorString)         \
  CALL(count, hipGetDeviceCount)              \
  CALL(get_current, hipGetDevice)             \
  CALL(set_current, hipSetDevice)             \
  CALL(name, hipDeviceGetName)                \
  CALL(total_memory, hipDeviceTotalMem)       \
  CALL(pci_address, hipDeviceGetPCIBusId)     \
  CALL(pin, hipHostRegister)                  \
  CALL(unpin, hipHostUnregister)              \
  CALL(allocate, hipMalloc)                   \
  CALL(release, hipFree)                      \
  CALL(copy, hipMemcpyAsync)                  \
  CALL(make_stream, hipStreamCreateWithFlags) \
  CALL(destroy_stream, hipStreamDestroy)      \
  CALL(hold, hipStreamWaitEvent)              \
  CALL(make_event, hipEventCreateWithFlags)   \
  CALL(destroy_event, hipEventDestroy)        \
  CALL(record, hipEventRecord)                \
  CALL(query, hipEventQuery)                  \
  CALL(synchronize, hipEventSynchronize)

namespace penstock {

class HipContext;

/// AMD's runtime (libamdhip64.so), opened while the program runs by load_runtime(). Immutable then.
struct HipRuntime {
  using Status = hipError_t;
  using Stream = hipStream_t;
  using Event = hipEvent_t;
  using Address = void*;
  using Context = HipContext;
  static constexpr const char* kRuntime = "hip";
  static constexpr const char* kTitle = "HIP";
  static constexpr const char* kCannotBegin = "HIP finds no device that works";
  /// Newest first: the number changes with ROCm's.
  static constexpr std::array kLibraries{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                         "libamdhip64.so"};
  static constexpr hipError_t kSuccess = hipSuccess;
  static constexpr hipError_t kNotReady = hipErrorNotReady;
  static constexpr unsigned kPinFlags = hipHostRegisterPortable;
  static constexpr unsigned kStreamFlags = hipStreamNonBlocking;
  static constexpr unsigned kEventFlags = hipEventDisableTiming | hipEventBlockingSync;

  PENSTOCK_CALLS(PENSTOCK_HIP_CALLS)

  hipError_t copy_in(void* target, const void* source, std::size_t bytes,
                     hipStream_t stream) const {
    return copy(target, source, bytes, hipMemcpyHostToDevice, stream);
  }
  hipError_t copy_out(void* target, const void* source, std::size_t bytes,
                      hipStream_t stream) const {
    return copy(target, source, bytes, hipMemcpyDeviceToHost, stream);
  }

  static Result<int> device_of(std::uint32_t number) { return static_cast<int>(number); }
  /// What `result` says, after `doing`: "HIP cannot pin 64.0 MiB: out of memory
  /// (hipErrorOutOfMemory 2)".
  Error error(hipError_t result, const std::string& doing) const;
  Result<void> check(hipError_t result, const std::string& doing) const {
    return result == hipSuccess ? Result<void>() : error(result, doing);
  }
};

/// A device, which is the calling thread's during a call.
class HipContext {
 public:
  static Result<std::unique_ptr<const HipContext>> retain(std::shared_ptr<const HipRuntime> hip,
                                                          std::uint32_t number) {
    return std::make_unique<const HipContext>(std::move(hip), static_cast<int>(number));
  }
  HipContext(std::shared_ptr<const HipRuntime> hip, int device)
      : hip_(std::move(hip)), device_(device) {}

  const HipRuntime& api() const noexcept { return *hip_; }
  /// `call`, which does not throw, with this device current; or why that could not be done.
  template <class Call>
  hipError_t run(Call call) const {
    int before = 0;
    if (const hipError_t error = hip_->get_current(&before); error != hipSuccess) {
      return error;
    }
    if (before == device_) {
      return call();
    }
    if (const hipError_t changed = hip_->set_current(device_); changed != hipSuccess) {
      return changed;
    }
    const hipError_t result = call();
    (void)hip_->set_current(before);
    return result;
  }

 private:
  const std::shared_ptr<const HipRuntime> hip_;
  const int device_;
};

}  // namespace penstock
