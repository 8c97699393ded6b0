#include "gil_release.h"

#include <cxxabi.h>
#include <unistd.h>

namespace penstock::python {

void wait_for_the_end_of_the_process() noexcept {
  while (true) {
    ::pause();
  }
}

GilRelease::GilRelease() noexcept
    : ends_it_(Py_IsInitialized() == 0), state_(PyEval_SaveThread()) {}

GilRelease::~GilRelease() {
  if (!ends_it_ && Py_IsInitialized() == 0) {
    wait_for_the_end_of_the_process();
  }
  try {
    PyEval_RestoreThread(state_);
  } catch (const abi::__forced_unwind&) {  // the end began while this thread waited for the GIL
    wait_for_the_end_of_the_process();
  }
}

}  // namespace penstock::python
