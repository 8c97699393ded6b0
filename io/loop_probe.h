#pragma once

#include "alloc/result.h"

namespace penstock {

/// Makes each system call once that an event loop waits and is woken by. A filter may allow some of
/// them and forbid others, and a loop would sleep for ever. Errors: errno, naming the call.
Result<void> probe_loop_calls();

}  // namespace penstock
