#pragma once

#include <cstdint>
#include <memory>

#include "io/io_engine.h"
#include "io/sim_disk.h"

namespace penstock {

/// Requests to a simulated drive complete in virtual time, in an order that the disk's seed
/// decides: each after a latency of its own, so that they overtake each other. A blocking wait
/// jumps to the next completion, so nothing here ever sleeps. `disk` outlives the engine.
///
/// For a queue that its caller drives (IoQueue::start_for_caller): there is no completion_fd().
std::unique_ptr<IoEngine> make_sim_engine(SimDisk& disk, const IoEngineOptions& options);

}  // namespace penstock
