#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

/// What steps an optimizer's states: Adam, Lion, Adagrad.
void bind_step_kernels(nanobind::module_& module);

}  // namespace penstock::python
