#include "io/event_fd.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>

namespace penstock {
namespace {

// Between two looks, where there is no waiting.
constexpr std::chrono::milliseconds kRefusedPause{1};

}  // namespace

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
  while (::write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  // EAGAIN: the counter is full, and the descriptor already readable. Where a filter refuses the
  // write, EventLoop's timer finds the work after a while.
}

void EventFd::clear() noexcept {
  std::uint64_t count = 0;
  ssize_t read = 0;
  do {
    read = ::read(fd_, &count, sizeof count);
  } while (read < 0 && errno == EINTR);
  stays_readable_ = read < 0 && errno != EAGAIN;
}

void EventFd::wait() noexcept {
  pollfd readable{fd_, POLLIN, 0};
  if (stays_readable_ || (::poll(&readable, 1, -1) < 0 && errno != EINTR && errno != EAGAIN)) {
    std::this_thread::sleep_for(kRefusedPause);
  }
}

}  // namespace penstock
