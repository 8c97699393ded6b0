#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alloc/memory_source.h"
#include "alloc/pin_hook.h"
#include "alloc/result.h"
#include "io/file_system.h"
#include "io/io_queue.h"
#include "swap/device/device.h"
#include "swap/plan/budgets.h"
#include "swap/plan/engine_config.h"
#include "swap/warning.h"

namespace penstock {

struct SwapEngineOptions {
  EngineConfig config;
  std::uint32_t ranks_on_node = 1;
  /// Overrides what the configuration resolves to; for tests and benchmarks.
  std::optional<Budgets> budgets;
  IoEngineOptions io;
  /// The machine's free memory and limits, instead of asking the machine: for results that must be
  /// the same on every machine.
  std::optional<std::uint64_t> mem_available_bytes;
  /// The most bytes that are read ahead and not used yet; 0: no read-ahead. Nothing: as far as
  /// memory reaches.
  std::optional<std::uint64_t> lookahead_bytes;
  /// Where stores live; outlives the engine.
  FileSystem* file_system = &os_file_system();
  /// Pageable memory; null: the machine's.
  std::shared_ptr<MemorySource> pageable;
  /// Makes the queue to the drives; empty: the configuration's engine on a thread of its own. The
  /// three are for simulations, whose file system no engine of the machine understands.
  std::function<Result<std::unique_ptr<IoQueue>>(const IoEngineOptions&)> make_queue;
  /// Register pinned memory with others beside the ring (a GPU's runtime): called once for each
  /// arena, after the ring, and undone before it. An arena that a hook refuses is not used.
  std::vector<PinHook> pin_hooks;
  /// Accelerators whose memory tensors come from and go to: pinned slots are pinned for each of
  /// them too, and a quarter of max_pinned_bytes, 32 MiB at most, becomes the chunks through which
  /// goes what has no slot, on the device's own NUMA node.
  std::vector<std::shared_ptr<Device>> devices;
  /// Saves a trace of every use there (TraceLog::open). Empty: where the environment's
  /// PENSTOCK_TRACE says, if it does.
  std::string trace;
  /// Called once for each condition, from any thread and under the engine's lock: it neither waits
  /// nor calls the engine. Empty: the log gets them.
  std::function<void(const Warning&)> warn;
};

}  // namespace penstock
