#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

/// Never returns. For a thread that Python would end since the interpreter does: such an end
/// unwinds the stack (pthread_exit, up to Python 3.13), and some of its frames must not be unwound.
[[noreturn]] void wait_for_the_end_of_the_process() noexcept;

/// Gives up the GIL while it lives. A daemon thread that finds the interpreter ending when it wants
/// the GIL back stops here for ever, as of Python 3.14 in the interpreter itself. It holds nothing
/// of the engine's then that others wait for: no lock, and an operation in flight ends without it.
class GilRelease {
 public:
  GilRelease() noexcept;
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  const bool ends_it_;  // this is the thread that ends the interpreter, and may have the GIL
  PyThreadState* const state_;
};

}  // namespace penstock::python
