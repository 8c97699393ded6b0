#pragma once

#include <memory>

#include "io/io_engine.h"

namespace penstock {

/// pread/pwrite on a small pool of threads (`min(depth, 8)`): works wherever files do.
Result<std::unique_ptr<IoEngine>> make_thread_engine(const IoEngineOptions& options);

}  // namespace penstock
