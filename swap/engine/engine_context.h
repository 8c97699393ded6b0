#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "alloc/check.h"
#include "alloc/waiting.h"
#include "io/io_queue.h"
#include "swap/engine/deferred_work.h"
#include "swap/engine/engine_lock.h"
#include "swap/engine/write_barrier.h"
#include "swap/stats.h"
#include "swap/swap_engine_options.h"

namespace penstock {

/// What all parts of one engine share: its lock, its clocks, what is in flight. `mutex` guards the
/// second half. Lock order: mutex before the locks of store, pool, queue and tickets, never the
/// other way round.
struct EngineContext {
  SwapEngineOptions options;
  std::shared_ptr<IoQueue> queue;  ///< also held by pinned memory, which may outlive the engine
  std::shared_ptr<Waiting> waiting = std::make_shared<Waiting>();  ///< for writes, and at the end
  /// For reads, and for memory to read into or to fill: what callers spend on it is a stall.
  std::shared_ptr<Waiting> stalls = waiting;
  DeferredWork::Worker* worker = nullptr;
  std::weak_ptr<void> engine;  ///< all parts; operations in flight hold it

  mutable std::mutex mutex;
  std::condition_variable changed;  ///< operations or writes went down, or a flush ended
  bool closed PENSTOCK_GUARDED = false;
  std::uint64_t operations PENSTOCK_GUARDED = 0;  ///< transfers in flight
  WriteBarrier writes PENSTOCK_GUARDED;           ///< contents on their way to drives
  SwapStats stats PENSTOCK_GUARDED;

  std::shared_ptr<void> hold() const noexcept { return engine.lock(); }
  /// A part, which holds all of them.
  template <class Part>
  std::shared_ptr<Part> hold(Part& part) const noexcept {
    return {hold(), &part};
  }
  void warn(WarningCode code, std::string text) const { options.warn({code, std::move(text)}); }
  static Error not_open() { return fault(Fault::kClosed, "the swap engine is closed"); }

  // With the lock.
  void operation_begun() noexcept PENSTOCK_NEEDS_LOCK { ++operations; }
  void operation_ended() noexcept PENSTOCK_NEEDS_LOCK {
    PENSTOCK_CHECK(operations > 0, "an operation ended that had not begun");
    --operations;
    changed.notify_all();
  }
};

}  // namespace penstock
