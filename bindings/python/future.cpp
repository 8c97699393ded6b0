#include "future.h"

#include <nanobind/stl/optional.h>

#include <chrono>
#include <optional>

#include "error_translation.h"
#include "gil_release.h"
#include "lease_object.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

/// Python wants its signals (Ctrl-C) seen while it waits, so the wait is cut into slices.
constexpr std::chrono::milliseconds kSlice{100};

bool wait(const Ticket& ticket, std::optional<double> timeout_s) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  while (true) {
    auto slice = std::chrono::nanoseconds(kSlice);
    if (timeout_s) {
      const auto left = std::chrono::duration<double>(*timeout_s) - (Clock::now() - begin);
      if (left < slice) {  // compared before the cast: not every timeout fits into nanoseconds
        slice = std::chrono::duration_cast<std::chrono::nanoseconds>(std::max(left, left.zero()));
      }
    }
    {
      GilRelease release;
      if (ticket.done() || (slice.count() > 0 && ticket.wait_for(slice).has_value())) {
        return true;
      }
    }
    if (timeout_s && std::chrono::duration<double>(Clock::now() - begin).count() >= *timeout_s) {
      return false;
    }
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
  }
}

/// Whether it is over; the caller's array is the caller's again then.
bool seen_done(const Future& self, bool done) {
  if (done && self.array) {
    self.array->let_go();
  }
  return done;
}

nb::object result(const Future& self, std::optional<double> timeout_s) {
  if (!seen_done(self, wait(self.ticket, timeout_s))) {
    PyErr_SetString(PyExc_TimeoutError, "the operation is still under way");
    throw nb::python_error();
  }
  if (!self.info) {
    unwrap(self.ticket.wait());
    return nb::none();
  }
  // The update ends with the last of the leases that were given: what comes behind is to read.
  const std::shared_ptr<UpdateEnd> update = self.update.lock();
  const Access access = self.has_given && !update ? Access::kRead : self.access;
  LeaseObject lease{unwrap(self.ticket.lease()), self.info, access, self.giver, update};
  self.update = lease.update;
  self.has_given = true;
  return nb::cast(std::move(lease));
}

}  // namespace

void bind_future(nb::module_& module) {
  nb::class_<Future>(module, "Future", "An operation under way.")
      .def("done", [](const Future& self) { return seen_done(self, self.ticket.done()); })
      .def("result", &result, nb::arg("timeout") = nb::none(),
           "Waits (at most `timeout` seconds, else TimeoutError) without holding the GIL; returns "
           "the lease of a get, None otherwise; raises what went wrong. Asked again it gives the "
           "lease again, as long as one of those that it gave lives.");
}

}  // namespace penstock::python
