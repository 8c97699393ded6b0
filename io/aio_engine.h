#pragma once

#include <memory>

#include "io/io_engine.h"

namespace penstock {

/// The kernel's older asynchronous interface (io_submit), for where io_uring is refused. It is
/// asynchronous for direct I/O only: a buffered request would hold up the loop inside io_submit
/// until it is over. So files without direct I/O are read and written on a few threads instead,
/// which are started with the first such file; where they cannot be, io_submit holds the loop up,
/// and everything is slower and still right.
///
/// Errors: why the kernel refused, with the remedy (seccomp, fs.aio-max-nr, built without).
Result<std::unique_ptr<IoEngine>> make_aio_engine(const IoEngineOptions& options);

}  // namespace penstock
