#include "bindings/c/last_error.h"

#include <cerrno>
#include <string>

namespace penstock::c {
namespace {

struct LastError {
  std::string message;
  int errno_value = 0;
};

LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

penstock_status status_of(const Error& error) noexcept {
  if (error.code.category() != fault_category()) {
    return error.system_errno() == ENOMEM ? PENSTOCK_ERROR_EXHAUSTED : PENSTOCK_ERROR_STORAGE;
  }
  switch (static_cast<Fault>(error.code.value())) {
    case Fault::kInvalidArgument:
      return PENSTOCK_ERROR_ARGUMENT;
    case Fault::kUnknownTensor:
      return PENSTOCK_ERROR_UNKNOWN_TENSOR;
    case Fault::kWrongSize:
      return PENSTOCK_ERROR_WRONG_SIZE;
    case Fault::kClosed:
      return PENSTOCK_ERROR_CLOSED;
    case Fault::kExhausted:
      return PENSTOCK_ERROR_EXHAUSTED;
    case Fault::kCorrupt:
      return PENSTOCK_ERROR_CORRUPT;
    case Fault::kConfiguration:
      return PENSTOCK_ERROR_CONFIGURATION;
    case Fault::kUnsupported:
      return PENSTOCK_ERROR_UNSUPPORTED;
  }
  return PENSTOCK_ERROR_INTERNAL;
}

int keep(penstock_status status, std::string_view message, int errno_value) noexcept {
  LastError& last = last_error();
  last.errno_value = errno_value;
  try {
    last.message = message;
  } catch (const std::exception&) {
    last.message = "no memory";  // short enough to need none
  }
  return status;
}

}  // namespace

int fail(const Error& error) noexcept {
  return keep(status_of(error), error.message, error.system_errno());
}

int fail(penstock_status status, std::string_view message) noexcept {
  return keep(status, message, 0);
}

}  // namespace penstock::c

const char* penstock_last_error(void) {
  return penstock::c::last_error().message.c_str();
}

int penstock_last_errno(void) {
  return penstock::c::last_error().errno_value;
}

const char* penstock_status_name(int status) {
  switch (status) {
    case PENSTOCK_OK:
      return "PENSTOCK_OK";
    case PENSTOCK_ERROR_ARGUMENT:
      return "PENSTOCK_ERROR_ARGUMENT";
    case PENSTOCK_ERROR_UNKNOWN_TENSOR:
      return "PENSTOCK_ERROR_UNKNOWN_TENSOR";
    case PENSTOCK_ERROR_WRONG_SIZE:
      return "PENSTOCK_ERROR_WRONG_SIZE";
    case PENSTOCK_ERROR_CLOSED:
      return "PENSTOCK_ERROR_CLOSED";
    case PENSTOCK_ERROR_EXHAUSTED:
      return "PENSTOCK_ERROR_EXHAUSTED";
    case PENSTOCK_ERROR_CORRUPT:
      return "PENSTOCK_ERROR_CORRUPT";
    case PENSTOCK_ERROR_CONFIGURATION:
      return "PENSTOCK_ERROR_CONFIGURATION";
    case PENSTOCK_ERROR_UNSUPPORTED:
      return "PENSTOCK_ERROR_UNSUPPORTED";
    case PENSTOCK_ERROR_STORAGE:
      return "PENSTOCK_ERROR_STORAGE";
    case PENSTOCK_ERROR_PENDING:
      return "PENSTOCK_ERROR_PENDING";
    case PENSTOCK_ERROR_INTERNAL:
      return "PENSTOCK_ERROR_INTERNAL";
    default:
      return "not a status of penstock";
  }
}

const char* penstock_version(void) {
  return PENSTOCK_VERSION;
}
