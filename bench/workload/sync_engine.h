#pragma once

#include <memory>

#include "io/io_engine.h"

namespace penstock::bench {

/// fio's psync: pread and pwrite on the thread that waits for them, one after the other; bytes move
/// inside wait() only. completion_fd() is -1, so it is for a thread that drives it by itself.
Result<std::unique_ptr<IoEngine>> make_sync_engine(std::uint32_t block_bytes);

}  // namespace penstock::bench
