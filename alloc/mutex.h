#pragma once

#include <mutex>

#include "alloc/thread_safety.h"

namespace penstock {

/// A std::mutex of which Clang's analysis knows: what it guards says PENSTOCK_GUARDED_BY.
class PENSTOCK_CAPABILITY("the mutex") Mutex {
 public:
  void lock() PENSTOCK_ACQUIRE() { mutex_.lock(); }
  void unlock() PENSTOCK_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds one from construction to destruction, but for what is between unlock() and lock().
class PENSTOCK_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PENSTOCK_ACQUIRE(mutex) : lock_(mutex) {}
  ~MutexLock() PENSTOCK_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() PENSTOCK_ACQUIRE() { lock_.lock(); }
  void unlock() PENSTOCK_RELEASE() { lock_.unlock(); }

 private:
  std::unique_lock<Mutex> lock_;
};

}  // namespace penstock
