#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "alloc/result.h"
#include "swap/device/dynamic_library.h"
#include "swap/device/hip_runtime.h"

// Behind HIP's header as hip_runtime.h includes it, without overloads.
#include <hipfile.h>

// What is called of AMD's hipFile.
#define PENSTOCK_HIPFILE_CALLS(CALL)        \
  CALL(get_version, hipFileGetVersion)      \
  CALL(error_text, hipFileGetOpErrorString) \
  CALL(open_driver, hipFileDriverOpen)      \
  CALL(add, hipFileHandleRegister)          \
  CALL(remove, hipFileHandleDeregister)     \
  CALL(read, hipFileRead)                   \
  CALL(write, hipFileWrite)

namespace penstock {

#define PENSTOCK_TEXT(name) #name
#define PENSTOCK_VERSIONED(name, major) name "." PENSTOCK_TEXT(major)

/// AMD's hipFile (libhipfile.so), opened while the program runs. Immutable then.
struct HipfileLibrary {
  using Api = HipRuntime;
  using Descriptor = hipFileDescr_t;
  using Handle = hipFileHandle_t;
  using Status = hipFileError_t;
  static constexpr const char* kTitle = "hipFile";
  /// The number is that of the header: another one is another interface.
  static constexpr std::array kLibraries{PENSTOCK_VERSIONED("libhipfile.so", HIPFILE_VERSION_MAJOR),
                                         "libhipfile.so"};
  static constexpr auto kSuccess = hipFileSuccess;
  static constexpr auto kFileDescriptor = hipFileHandleTypeOpaqueFD;

  PENSTOCK_CALLS(PENSTOCK_HIPFILE_CALLS)

  /// 0.2; empty where it does not say.
  std::string version() const;

  /// Begins. Errors (kUnsupported): why transfers would not be direct.
  Result<void> begin_direct() const;

  /// What `result` says, after `doing`, or HIP where it was HIP's fault.
  Error error(Status result, const std::string& doing) const;
  /// What the library's own number says, after `doing`; of others (HIP's) the number alone.
  Error refusal(std::int64_t number, const std::string& doing) const;
};

#undef PENSTOCK_VERSIONED
#undef PENSTOCK_TEXT

}  // namespace penstock
