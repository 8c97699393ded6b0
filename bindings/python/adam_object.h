#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_adam(nanobind::module_& module);

}  // namespace penstock::python
