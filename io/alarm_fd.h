#pragma once

#include <cstdint>
#include <memory>

#include "alloc/result.h"

namespace penstock {

/// A file descriptor that is readable when another one is, or when a time has come: what lets an
/// event loop wait for both as for one. Times are steady_clock's. One thread.
class AlarmFd {
 public:
  /// `other_fd` outlives it. Errors: EMFILE, ENFILE, ENOMEM.
  static Result<std::unique_ptr<AlarmFd>> make(int other_fd);
  ~AlarmFd();
  AlarmFd(const AlarmFd&) = delete;
  AlarmFd& operator=(const AlarmFd&) = delete;

  int fd() const noexcept { return epoll_fd_; }
  /// From `ns` since the clock's epoch on it is readable; in place of what was set before.
  void set_ns(std::uint64_t ns) noexcept;
  void clear() noexcept;
  /// Blocks until it is readable.
  void wait() noexcept;

 private:
  AlarmFd(int epoll_fd, int timer_fd) : epoll_fd_(epoll_fd), timer_fd_(timer_fd) {}
  void arm(std::uint64_t ns) noexcept;

  int epoll_fd_;
  int timer_fd_;
};

}  // namespace penstock
