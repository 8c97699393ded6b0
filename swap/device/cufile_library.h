#pragma once

#include <cufile.h>

#include <memory>
#include <span>
#include <string>

#include "alloc/result.h"
#include "swap/device/dynamic_library.h"

// What is called of NVIDIA's cuFile: `CALL(name)` each. All are in 1.14 (CUDA 12.9) and later.
#define PENSTOCK_CUFILE_CALLS(CALL) \
  CALL(cuFileGetVersion)            \
  CALL(cuFileGetParameterBool)      \
  CALL(cuFileSetParameterBool)      \
  CALL(cuFileDriverOpen)            \
  CALL(cuFileDriverGetProperties)   \
  CALL(cuFileHandleRegister)        \
  CALL(cuFileHandleDeregister)      \
  CALL(cuFileRead)                  \
  CALL(cuFileWrite)

namespace penstock {

/// NVIDIA's cuFile (libcufile.so.0, of the toolkit or a wheel), opened while the program runs.
/// Immutable.
struct CufileLibrary {
  /// The first of `names`; nothing in it is called. Errors (kUnsupported): there is none, or it
  /// lacks a function.
  static Result<std::shared_ptr<const CufileLibrary>> load(std::span<const char* const> names);

  /// 1.15; empty where it does not say.
  std::string version() const;

  /// Begins, with copies through host memory forbidden: a transfer is direct or an error. It is not
  /// ended again, since others in the process may have begun it too. Asked for once a process:
  /// cuFile 1.20 was seen never to come back from a second time, and without libcuda.so.1 from a
  /// first one. Errors (kUnsupported): why no transfer could be direct.
  Result<void> begin_direct() const;

  /// What `error` says, after `doing`: "cuFile cannot begin: driver is closing
  /// (CU_FILE_DRIVER_CLOSING, 5006)", with CUDA's number where it was CUDA's fault.
  Error error(CUfileError_t error, const std::string& doing) const;
  Result<void> check(CUfileError_t result, const std::string& doing) const {
    return result.err == CU_FILE_SUCCESS ? Result<void>() : error(result, doing);
  }

#define PENSTOCK_DECLARE(name) decltype(&::name) name = nullptr;
  PENSTOCK_CUFILE_CALLS(PENSTOCK_DECLARE)
#undef PENSTOCK_DECLARE
};

}  // namespace penstock
