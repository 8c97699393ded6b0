#pragma once

// The plain C functions alone: overloads have no one type.
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <hipfile.h>

#include <memory>
#include <span>
#include <string>

#include "alloc/result.h"
#include "swap/device/dynamic_library.h"

// What is called of AMD's hipFile: `CALL(name)` each.
#define PENSTOCK_HIPFILE_CALLS(CALL) \
  CALL(hipFileGetVersion)            \
  CALL(hipFileGetOpErrorString)      \
  CALL(hipFileDriverOpen)            \
  CALL(hipFileHandleRegister)        \
  CALL(hipFileHandleDeregister)      \
  CALL(hipFileRead)                  \
  CALL(hipFileWrite)

namespace penstock {

/// AMD's hipFile (libhipfile.so), opened while the program runs. Immutable.
struct HipfileLibrary {
  /// Errors (kUnsupported): there is none, or it lacks a function.
  static Result<std::shared_ptr<const HipfileLibrary>> load();

  /// 0.2; empty where it does not say.
  std::string version() const;

  /// What the library's own number says, after `doing`; of others (HIP's) the number alone.
  Error error(int number, const std::string& doing) const;

#define PENSTOCK_DECLARE(name) decltype(&::name) name = nullptr;
  PENSTOCK_HIPFILE_CALLS(PENSTOCK_DECLARE)
#undef PENSTOCK_DECLARE
};

}  // namespace penstock
