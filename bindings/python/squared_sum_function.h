#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_squared_sum(nanobind::module_& module);

}  // namespace penstock::python
