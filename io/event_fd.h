#pragma once

#include <memory>

#include "alloc/result.h"

namespace penstock {

/// A counter of the kernel's that makes a file descriptor readable: how one thread, or the kernel
/// itself, tells an event loop that there is something to do. Never blocks.
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
  /// Blocks until it is readable.
  void wait() noexcept;

 private:
  explicit EventFd(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace penstock
