#pragma once

#include <nanobind/nanobind.h>

#include "lease_object.h"

namespace penstock::python {

/// What a consumer asks of `__dlpack__`.
struct DLPackRequest {
  /// It takes DLPack 1.0 (`max_version`), the first that can say "to read only".
  bool versioned = false;
  /// Memory of its own instead of the lease's, writable.
  bool copied = false;
};

/// A DLPack capsule ("dltensor", "dltensor_versioned") over the lease's memory, on the CPU. The
/// capsule's consumer holds the lease: its memory is reused only after the consumer's last view is
/// gone. The deleter runs on whatever thread drops that view and touches no Python. Errors:
/// TypeError for dtypes that DLPack does not know.
nanobind::object export_dlpack(const LeaseObject& lease, DLPackRequest request);

}  // namespace penstock::python
