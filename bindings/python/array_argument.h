#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace penstock::python {

using Source = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;
using Target = nanobind::ndarray<nanobind::c_contig, nanobind::device::cpu>;
// In the memory of whatever device the engine was opened for.
using DeviceSource = nanobind::ndarray<nanobind::ro, nanobind::c_contig>;
using DeviceTarget = nanobind::ndarray<nanobind::c_contig>;

/// `argument` over DLPack or the buffer protocol. One that is only read may be copied to lie in C
/// order; one that is filled may not, since its owner would not see the copy. Errors: TypeError.
template <class Array>
Array array_of(nanobind::handle argument);

}  // namespace penstock::python
