#pragma once

#include <cufile.h>

#include <array>
#include <cstdint>
#include <string>

#include "alloc/result.h"
#include "swap/device/cuda_driver.h"
#include "swap/device/dynamic_library.h"

// What is called of NVIDIA's cuFile. All are in 1.14 (CUDA 12.9) and later.
#define PENSTOCK_CUFILE_CALLS(CALL)               \
  CALL(get_version, cuFileGetVersion)             \
  CALL(get_parameter, cuFileGetParameterBool)     \
  CALL(set_parameter, cuFileSetParameterBool)     \
  CALL(open_driver, cuFileDriverOpen)             \
  CALL(get_properties, cuFileDriverGetProperties) \
  CALL(add, cuFileHandleRegister)                 \
  CALL(remove, cuFileHandleDeregister)            \
  CALL(read, cuFileRead)                          \
  CALL(write, cuFileWrite)

namespace penstock {

/// NVIDIA's cuFile (libcufile.so.0, of the toolkit or a wheel), opened while the program runs.
/// Immutable then.
struct CufileLibrary {
  using Api = CudaDriver;
  using Descriptor = CUfileDescr_t;
  using Handle = CUfileHandle_t;
  using Status = CUfileError_t;
  static constexpr const char* kTitle = "cuFile";
  static constexpr std::array kLibraries{"libcufile.so.0", "libcufile.so"};
  static constexpr auto kSuccess = CU_FILE_SUCCESS;
  static constexpr auto kFileDescriptor = CU_FILE_HANDLE_TYPE_OPAQUE_FD;

  PENSTOCK_CALLS(PENSTOCK_CUFILE_CALLS)

  /// 1.15; empty where it does not say.
  std::string version() const;

  /// Begins, with copies through host memory forbidden: a transfer is direct or an error. It is not
  /// ended again, since others in the process may have begun it too. Asked for once a process:
  /// cuFile 1.20 was seen never to come back from a second time, and without libcuda.so.1 from a
  /// first one. Errors (kUnsupported): why no transfer could be direct.
  Result<void> begin_direct() const;

  /// What `result` says, after `doing`: "cuFile cannot begin: driver is closing
  /// (CU_FILE_DRIVER_CLOSING, 5006)", with CUDA's number where it was CUDA's fault.
  Error error(Status result, const std::string& doing) const;
  Result<void> check(Status result, const std::string& doing) const {
    return result.err == CU_FILE_SUCCESS ? Result<void>() : error(result, doing);
  }
  /// The same of a number that a transfer returned.
  Error refusal(std::int64_t number, const std::string& doing) const;
};

}  // namespace penstock
