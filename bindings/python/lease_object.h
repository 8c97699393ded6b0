#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "swap/lease.h"
#include "swap/plan/inventory.h"
#include "swap/tensor.h"

namespace penstock::python {

/// A lease with the shape and dtype that Python wants to see.
struct LeaseObject {
  Lease lease;
  std::shared_ptr<const TensorInfo> info;
  Access access = Access::kRead;  // kRead: its views are to read only
  const void* giver = nullptr;    // the engine object; compared, never followed

  /// Raises penstock.Error after release().
  void expect_held() const;
  bool read_only() const noexcept { return access == Access::kRead; }
};

void bind_lease(nanobind::module_& module);

}  // namespace penstock::python
