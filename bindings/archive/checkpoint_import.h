#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "alloc/result.h"
#include "bindings/inventory/checkpoint.h"
#include "io/io_queue.h"
#include "swap/store/durable_store.h"

namespace penstock {

/// Called often, with bytes of tensors moved so far and of all; on the thread that called.
using OnProgress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

struct ImportReport {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;          ///< of tensors
  std::uint64_t written_bytes = 0;  ///< padding, identity blocks and journal included
};

/// Errors: there is nothing in it to import.
Result<void> check_importable(const Checkpoint& checkpoint);

/// Copies every tensor of `checkpoint` into `store` with a full checksum and publishes: what it
/// brings gets a new generation, what else is there stays. Needs some tens of MiB of memory,
/// whatever the model. Each tensor is the old or the new one, whole, whenever the process dies.
/// Files are read through `system`. Errors: the first of a file or drive; what was published before
/// it stays published.
Result<ImportReport> import_checkpoint(const Checkpoint& checkpoint, FileSystem& system,
                                       DurableStore& store, IoQueue& queue,
                                       const OnProgress& on_progress = {});

}  // namespace penstock
