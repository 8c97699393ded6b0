#include "error_translation.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cerrno>

#include "python_call.h"
#include "python_text.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

const char* kind_of(const Error& error) {
  if (error.code.category() != fault_category()) {
    return error.system_errno() == ENOMEM ? "exhausted" : "storage";
  }
  switch (static_cast<Fault>(error.code.value())) {
    case Fault::kInvalidArgument:
      return "argument";
    case Fault::kUnknownTensor:
      return "unknown_tensor";
    case Fault::kWrongSize:
      return "argument";
    case Fault::kClosed:
      return "closed";
    case Fault::kExhausted:
      return "exhausted";
    case Fault::kCorrupt:
      return "corrupt";
    case Fault::kConfiguration:
      return "configuration";
    case Fault::kUnsupported:
      return "unsupported";
  }
  return "argument";
}

}  // namespace

void raise(const Error& error) {
  const nb::object exception =
      call(imported("penstock.errors", "make"),
           nb::make_tuple(kind_of(error), error.system_errno(), python_text(error.message),
                          python_path(error.path), python_text(error.tensor)));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

}  // namespace penstock::python
