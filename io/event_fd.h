#pragma once

#include <memory>

#include "alloc/result.h"

namespace penstock {

/// A counter of the kernel (eventfd) that makes a file descriptor readable: a thread, or the kernel
/// itself, uses it to notify an event loop of work. Never blocks. Where a filter forbids its calls
/// after it was made, no notification comes: EventLoop then finds the work by its timer.
class EventFd {
 public:
  /// Errors: EMFILE, ENFILE, ENOMEM.
  static Result<std::unique_ptr<EventFd>> make();
  ~EventFd();
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;

  int fd() const noexcept { return fd_; }
  /// Makes the descriptor readable. From any thread.
  void notify() noexcept;
  /// Makes it unreadable again. Call it before you look for work, so that work which comes later
  /// notifies again.
  void clear() noexcept;
  /// Blocks until it is readable; a moment, where that cannot be waited for.
  void wait() noexcept;

 private:
  explicit EventFd(int fd) : fd_(fd) {}
  int fd_;
  bool stays_readable_ = false;  // it cannot be cleared; the waiting thread's
};

}  // namespace penstock
