#pragma once

#include <pthread.h>

#include <functional>
#include <memory>
#include <utility>

#include "alloc/result.h"

namespace penstock {

/// A thread with a stack of 512 KiB, for work that nests little. Threads come with 8 MiB mostly;
/// beyond five such the C library unmaps the stacks of those that end, and ends the process where
/// a filter forbids that.
class SmallThread {
 public:
  /// Errors: EAGAIN (`ulimit -u`), ENOMEM.
  static Result<SmallThread> start(std::function<void()> work);
  SmallThread(SmallThread&& other) noexcept
      : work_(std::move(other.work_)), thread_(other.thread_) {}
  SmallThread& operator=(SmallThread&&) = delete;
  /// Waits for its end.
  ~SmallThread();

 private:
  explicit SmallThread(std::function<void()> work)
      : work_(std::make_unique<std::function<void()>>(std::move(work))) {}

  std::unique_ptr<std::function<void()>> work_;  // null: another has the thread
  pthread_t thread_{};
};

}  // namespace penstock
