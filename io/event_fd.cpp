#include "io/event_fd.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "alloc/check.h"

namespace penstock {

Result<std::unique_ptr<EventFd>> EventFd::make() {
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) {
    return system_error(errno, "cannot make an eventfd (`ulimit -n` limits open files)");
  }
  return std::unique_ptr<EventFd>(new EventFd(fd));
}

EventFd::~EventFd() {
  ::close(fd_);
}

void EventFd::notify() noexcept {
  const std::uint64_t one = 1;
  ssize_t written = 0;
  do {
    written = ::write(fd_, &one, sizeof one);
  } while (written < 0 && errno == EINTR);
  // EAGAIN: the counter is full, and the descriptor as readable as can be.
  PENSTOCK_CHECK(written == sizeof one || errno == EAGAIN, "eventfd {} write errno {}", fd_, errno);
}

void EventFd::clear() noexcept {
  std::uint64_t count = 0;
  ssize_t read = 0;
  do {
    read = ::read(fd_, &count, sizeof count);
  } while (read < 0 && errno == EINTR);
  PENSTOCK_CHECK(read == sizeof count || errno == EAGAIN, "eventfd {} read errno {}", fd_, errno);
}

void EventFd::wait() noexcept {
  pollfd readable{fd_, POLLIN, 0};
  while (::poll(&readable, 1, -1) < 0) {
    PENSTOCK_CHECK(errno == EINTR || errno == EAGAIN, "eventfd {} poll errno {}", fd_, errno);
  }
}

}  // namespace penstock
