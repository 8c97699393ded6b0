#pragma once

#include <mutex>
#include <utility>

#include "swap/engine/engine_context.h"

namespace penstock {

/// The engine's lock, held from construction to destruction, and what has to happen after that. A
/// function that takes a Locked& needs the lock and never releases it: what may block (memory from
/// the pool, space from a file system, checksums, copies) it leaves to DeferredWork, which begins
/// when this ends.
class Locked : public DeferredWork {
 public:
  explicit Locked(EngineContext& context) : context_(context), lock_(context.mutex) {}
  ~Locked() {
    lock_.unlock();
    act(*context_.worker);
  }

  /// Sleeps until `ready()`, without the lock; for what took it. What was deferred so far waits,
  /// too.
  template <class Ready>
  void wait(Ready ready) {
    context_.waiting->wait(lock_, context_.changed, std::move(ready));
  }

 private:
  EngineContext& context_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace penstock
