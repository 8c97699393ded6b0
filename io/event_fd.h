#pragma once

#include <memory>

#include "alloc/result.h"

namespace penstock {

/// A counter of the kernel's that makes a file descriptor readable: how one thread, or the kernel
/// itself, tells an event loop that there is something to do. Never blocks. Where a filter forbids
/// its calls after it was made, nothing is told: EventLoop looks by itself then.
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
  /// Makes it unreadable again. To be called before looking for what it told of, so that what comes
  /// afterwards is told again.
  void clear() noexcept;
  /// Blocks until it is readable; a moment, where that cannot be waited for.
  void wait() noexcept;

 private:
  explicit EventFd(int fd) : fd_(fd) {}
  int fd_;
  bool stays_readable_ = false;  // it cannot be cleared; the waiting thread's
};

}  // namespace penstock
