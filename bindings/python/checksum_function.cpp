#include "checksum_function.h"

#include <cstdint>

#include "array_argument.h"
#include "gil_release.h"
#include "swap/transfer/checksum.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

std::uint64_t checksum_of(nb::handle elements) {
  const Source array = array_of<Source>(elements);
  const GilRelease release;
  return checksum(IntegrityLevel::kFull,
                  {static_cast<const std::byte*>(array.data()), array.nbytes()});
}

}  // namespace

void bind_checksum(nb::module_& module) {
  module.def("checksum", &checksum_of, nb::arg("elements"));
}

}  // namespace penstock::python
