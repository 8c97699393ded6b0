#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_moment_layout(nanobind::module_& module);

}  // namespace penstock::python
