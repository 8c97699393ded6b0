#pragma once

#include <cstdint>
#include <optional>

namespace penstock {

/// What this process's control groups (a container, a job of a scheduler) still let it take, in
/// bytes: limit less use, where page cache that can be given up does not count; the least of the
/// group and those above it. Nothing where none has a limit, or none can be seen. Versions 1 and 2:
/// the kernel's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
std::optional<std::uint64_t> control_group_free_bytes();

}  // namespace penstock
