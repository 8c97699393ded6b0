#pragma once

#include <optional>

#include "alloc/result.h"

namespace penstock {

/// Why io_uring_setup(2) failed with `errno_value`, as a sentence that names the remedy.
/// `io_uring_disabled` is the value of that sysctl, where there is one: it tells EPERM by the
/// administrator from EPERM by a seccomp filter.
Error explain_uring_refusal(int errno_value, std::optional<int> io_uring_disabled);

/// /proc/sys/kernel/io_uring_disabled (Linux 6.6): 0 on, 1 for privileged processes, 2 off.
std::optional<int> read_io_uring_disabled();

}  // namespace penstock
