#include "python_call.h"

#include <cxxabi.h>

#include "gil_release.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

/// `run` owns nothing: the end of a thread destroys that before it comes here.
template <class F>
PyObject* until_the_end(const F& run) {
  try {
    return run();
  } catch (const abi::__forced_unwind&) {
    wait_for_the_end_of_the_process();
  }
}

}  // namespace

nb::object owned(PyObject* made) {
  if (made == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(made);
}

nb::object imported(const char* module, const char* name) {
  const nb::object found = owned(until_the_end([&] { return PyImport_ImportModule(module); }));
  return owned(until_the_end([&] { return PyObject_GetAttrString(found.ptr(), name); }));
}

nb::object attribute_of(nb::handle object, const char* name) {
  PyObject* const found = until_the_end([&] { return PyObject_GetAttrString(object.ptr(), name); });
  if (found == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) {
      throw nb::python_error();
    }
    PyErr_Clear();
    return {};
  }
  return nb::steal(found);
}

nb::object call(nb::handle function, const nb::tuple& arguments, nb::handle keywords) {
  return owned(until_the_end(
      [&] { return PyObject_Call(function.ptr(), arguments.ptr(), keywords.ptr()); }));
}

}  // namespace penstock::python
