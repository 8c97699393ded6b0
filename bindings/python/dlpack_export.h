#pragma once

#include <nanobind/nanobind.h>

#include "swap/lease.h"
#include "swap/plan/inventory.h"

namespace penstock::python {

/// A DLPack capsule ("dltensor") over the lease's memory, on the CPU, writable. The capsule's
/// consumer holds the lease: its memory is reused only after the consumer's last view is gone. The
/// deleter runs on whatever thread drops that view and touches no Python. Errors: TypeError for
/// dtypes that DLPack does not know.
nanobind::object export_dlpack(const Lease& lease, const TensorInfo& info);

}  // namespace penstock::python
