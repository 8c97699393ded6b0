#pragma once

#include <cstdint>
#include <optional>

namespace penstock {

/// What this process may lock in memory (RLIMIT_MEMLOCK): nothing where it has no limit
/// (unlimited, or CAP_IPC_LOCK, which counts outside of user namespaces). From any thread.
std::optional<std::uint64_t> memlock_limit_bytes();

}  // namespace penstock
