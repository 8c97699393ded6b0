#pragma once

#include <memory>

#include "io/io_engine.h"

namespace penstock {

/// How the kernel brings results to the thread that polls.
enum class UringMode : std::uint8_t {
  kDeferred,     ///< when the thread asks for them (Linux 6.1): no interrupts, cheapest
  kCooperative,  ///< at the thread's next system call (5.19)
  kPlain,        ///< by interrupting the thread
};

/// io_uring with registered buffers. Must be used on the thread that made it where the kernel has
/// IORING_SETUP_SINGLE_ISSUER (6.0). Takes `newest` or, where the kernel does not know it, the next
/// older mode. Errors: why the kernel refused, with the remedy (seccomp, kernel.io_uring_disabled,
/// memlock, too old).
Result<std::unique_ptr<IoEngine>> make_uring_engine(const IoEngineOptions& options,
                                                    UringMode newest = UringMode::kDeferred);

}  // namespace penstock
