#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "swap/plan/inventory.h"
#include "swap/ticket.h"

namespace penstock::python {

/// A ticket as Python's futures look. `info` is set where the result is a lease.
struct Future {
  Ticket ticket;
  std::shared_ptr<const TensorInfo> info;
};

void bind_future(nanobind::module_& module);

}  // namespace penstock::python
