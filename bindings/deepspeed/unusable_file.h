#pragma once

#include <string>
#include <utility>

#include "alloc/result.h"

namespace penstock {

/// A file that is there and is not what it should be; `message` names it.
inline Error unusable_file(const std::string& path, std::string message) {
  Error error = fault(Fault::kInvalidArgument, std::move(message));
  error.path = path;
  return error;
}

}  // namespace penstock
