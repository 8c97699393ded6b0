#pragma once

#include "swap/warning.h"

namespace penstock::python {

/// Keeps a warning of an engine until Python code may run. From any thread, which may hold the
/// engine's lock: takes none itself, and never waits.
void keep_warning(const Warning& warning) noexcept;

/// Hands what was kept to penstock.messages, in order. With the GIL, and where nothing is lost if
/// it throws: a program's logging handlers run here, and Ctrl-C may come meanwhile.
void deliver_warnings();

/// What is left when the interpreter has ended goes to the log.
void deliver_at_exit();

}  // namespace penstock::python
