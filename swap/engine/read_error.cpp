#include "swap/engine/read_error.h"

#include <fmt/format.h>

#include "alloc/bytes.h"
#include "alloc/out_of_memory.h"

namespace penstock {

Error being_changed(const TensorRecord& record) {
  Error error = fault(
      Fault::kInvalidArgument,
      fmt::format("tensor '{}' is being changed: commit or release the lease that was given for "
                  "its update first",
                  record.info->name));
  error.tensor = record.info->name;
  return error;
}

Error no_memory(const TensorRecord& record, const char* verb, const char* purpose,
                const Error& cause) noexcept {
  return said(cause.code, [&]() PENSTOCK_NEEDS_LOCK {
    Error error = cause;
    error.message = fmt::format("no memory to {} tensor '{}' ({}) {}: {}", verb, record.info->name,
                                format_bytes(record.bytes()), purpose, error.message);
    error.tensor = record.info->name;
    return error;
  });
}

}  // namespace penstock
