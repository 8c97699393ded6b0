#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "held_array.h"
#include "lease_object.h"
#include "swap/plan/inventory.h"
#include "swap/tensor.h"
#include "swap/ticket.h"

namespace penstock::python {

/// A ticket as Python's futures look.
struct Future {
  Ticket ticket;
  // Where the result is a lease: what it will be of, and as LeaseObject's.
  std::shared_ptr<const TensorInfo> info = nullptr;
  Access access = Access::kRead;
  const void* giver = nullptr;
  mutable std::weak_ptr<UpdateEnd> update = {};  // of the lease that was given, to be changed
  mutable bool has_given = false;                // a lease
  /// Of an operation on the caller's array; shared with the engine object, which may outlive this.
  std::shared_ptr<HeldArray> array = nullptr;
};

void bind_future(nanobind::module_& module);

}  // namespace penstock::python
