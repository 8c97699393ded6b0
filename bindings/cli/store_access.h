#pragma once

#include <memory>
#include <string>

#include "alloc/result.h"
#include "io/io_queue.h"
#include "swap/store/durable_store.h"

namespace penstock::cli {

/// The I/O thread of a verb that moves tensors, with the engine that PENSTOCK_ENGINE names.
Result<std::unique_ptr<IoQueue>> start_queue();

/// `directory` as the user wrote it.
Result<std::unique_ptr<DurableStore>> open_store(const std::string& directory,
                                                 DurableStoreOptions::Access access);

}  // namespace penstock::cli
