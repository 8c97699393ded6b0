#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_checksum(nanobind::module_& module);

}  // namespace penstock::python
