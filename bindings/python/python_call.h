#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

// Python code that C++ runs. It may change threads, and a daemon thread that the interpreter's end
// meets there is unwound (pthread_exit, up to Python 3.13): destructors on the way would count
// references without the GIL, beside the thread that ends the interpreter. So nothing is owned
// between these functions and Python, and such a thread stops in them for ever. With the GIL.

/// What a function of Python's C API has made. Throws its error, nb::python_error.
nanobind::object owned(PyObject* made);

/// `module.name`, imported if need be. Throws nb::python_error.
nanobind::object imported(const char* module, const char* name);

/// `object.name`; nothing where it has none.
nanobind::object attribute_of(nanobind::handle object, const char* name);

/// `function(*arguments, **keywords)`; `keywords` may be nothing. Throws nb::python_error.
nanobind::object call(nanobind::handle function, const nanobind::tuple& arguments,
                      nanobind::handle keywords = {});

}  // namespace penstock::python
