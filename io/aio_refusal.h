#pragma once

#include <cstdint>
#include <optional>

#include "alloc/result.h"

namespace penstock {

/// How many requests of this kind all processes of the machine may have set up, and how many they
/// have (/proc/sys/fs/aio-max-nr, aio-nr).
struct AioUsage {
  std::uint64_t allowed = 0;
  std::uint64_t taken = 0;
};

/// Nothing where the kernel does not say.
std::optional<AioUsage> read_aio_usage();

/// Why io_setup(2), or the calls that need it, failed with `errno_value`, as a sentence that names
/// the remedy.
Error explain_aio_refusal(int errno_value, const std::optional<AioUsage>& usage);

}  // namespace penstock
