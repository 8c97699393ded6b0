#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "alloc/waiting.h"
#include "swap/engine/deferred_work.h"

namespace penstock {

/// The engine's lock, held from construction to destruction, and what has to happen after that. A
/// function that takes a Locked& needs the lock and never releases it: what may block (memory from
/// the pool, space from a file system, checksums, copies) it leaves to DeferredWork, which begins
/// when this ends.
class Locked : public DeferredWork {
 public:
  Locked(std::mutex& mutex, Worker& worker) : lock_(mutex), worker_(worker) {}
  ~Locked() {
    lock_.unlock();
    act(worker_);
  }

  /// Sleeps until `ready()`, without the lock; for what took it. What was deferred so far waits,
  /// too.
  template <class Ready>
  void wait(Waiting& waiting, std::condition_variable& changed, Ready ready) {
    waiting.wait(lock_, changed, std::move(ready));
  }

 private:
  std::unique_lock<std::mutex> lock_;
  Worker& worker_;
};

}  // namespace penstock
