#pragma once

#include <memory>

#include "io/io_engine.h"

namespace penstock {

/// io_uring with registered buffers. Must be used on the thread that made it where the kernel has
/// IORING_SETUP_SINGLE_ISSUER (6.0). Errors of make(): why the kernel refused, with the remedy
/// (seccomp, kernel.io_uring_disabled, memlock, too old).
Result<std::unique_ptr<IoEngine>> make_uring_engine(const IoEngineOptions& options);

}  // namespace penstock
