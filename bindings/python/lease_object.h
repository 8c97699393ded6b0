#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "swap/lease.h"
#include "swap/plan/inventory.h"

namespace penstock::python {

/// A lease with the shape and dtype that Python wants to see.
struct LeaseObject {
  Lease lease;
  std::shared_ptr<const TensorInfo> info;

  /// Raises penstock.Error after release().
  void expect_held() const;
};

void bind_lease(nanobind::module_& module);

}  // namespace penstock::python
