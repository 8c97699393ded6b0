#include "squared_sum_function.h"

#include <nanobind/stl/string.h>

#include <string>

#include "array_argument.h"
#include "error_translation.h"
#include "gil_release.h"
#include "swap/update/squared_sum.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

double sum_of(nb::handle elements, const std::string& dtype, unsigned lanes) {
  if (lanes != 2 && lanes != 4 && lanes != 8) {
    raise(fault(Fault::kInvalidArgument, "lanes are 2, 4 or 8"));
  }
  const Source array = array_of<Source>(elements);
  const DType type = unwrap(parse_dtype(dtype));
  if (array.nbytes() % dtype_bytes(type) != 0) {
    raise(fault(Fault::kInvalidArgument, "the elements end within one of " + dtype));
  }
  const GilRelease release;
  return squared_sum({static_cast<const std::byte*>(array.data()), array.nbytes()}, type,
                     static_cast<VectorLanes>(lanes));
}

}  // namespace

void bind_squared_sum(nb::module_& module) {
  module.def("squared_sum", &sum_of, nb::arg("elements"), nb::arg("dtype"), nb::arg("lanes"));
}

}  // namespace penstock::python
