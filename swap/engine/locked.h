#pragma once

#include <mutex>
#include <utility>

#include "swap/engine/engine_context.h"

namespace penstock {

/// The engine's lock, held from construction to destruction, where nothing has to happen after
/// that.
class PENSTOCK_SCOPED_CAPABILITY BriefLock {
 public:
  explicit BriefLock(const EngineContext& context) PENSTOCK_ACQUIRE(engine_lock)
      : lock_(context.mutex) {}
  ~BriefLock() PENSTOCK_RELEASE() {}
  BriefLock(const BriefLock&) = delete;
  BriefLock& operator=(const BriefLock&) = delete;

 private:
  const std::lock_guard<std::mutex> lock_;
};

/// The engine's lock, held from construction to destruction, and what has to happen after that. A
/// function that takes a Locked& needs the lock and never releases it: what may block (memory from
/// the pool, space from a file system, checksums, copies) it leaves to DeferredWork, which begins
/// when this ends.
class PENSTOCK_SCOPED_CAPABILITY Locked : public DeferredWork {
 public:
  explicit Locked(EngineContext& context) PENSTOCK_ACQUIRE(engine_lock)
      : context_(context), lock_(context.mutex) {}
  ~Locked() PENSTOCK_RELEASE() {
    lock_.unlock();
    act(*context_.worker);
  }

  /// For functions that are called by what knows nothing of the lock.
  void assert_held() const PENSTOCK_ASSERT_HELD(engine_lock) {}

  /// Sleeps until `ready()`, without the lock; for what took it. What was deferred so far waits,
  /// too.
  template <class Ready>
  void wait(Ready ready) {
    wait_by(*context_.waiting, ready);
  }
  /// The same, in a call of a caller's who wants memory: it counts in SwapStats::stall_ns.
  template <class Ready>
  void stall(Ready ready) {
    wait_by(*context_.stalls, ready);
  }

 private:
  template <class Ready>
  void wait_by(Waiting& waiting, Ready& ready) {
    waiting.wait(lock_, context_.changed, [&ready]() PENSTOCK_CALLERS_LOCKS { return ready(); });
  }

  EngineContext& context_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace penstock
