#include "io/alarm_fd.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "alloc/check.h"

namespace penstock {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

bool watch(int epoll_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

Error cannot_make(int error) {
  return system_error(error, "cannot make a timer (`ulimit -n` limits open files)");
}

}  // namespace

Result<std::unique_ptr<AlarmFd>> AlarmFd::make(int other_fd) {
  const int epoll_fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) {
    return cannot_make(errno);
  }
  // steady_clock is CLOCK_MONOTONIC.
  const int timer_fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (timer_fd < 0) {
    const int error = errno;
    ::close(epoll_fd);
    return cannot_make(error);
  }
  std::unique_ptr<AlarmFd> alarm(new AlarmFd(epoll_fd, timer_fd));
  if (!watch(epoll_fd, timer_fd) || !watch(epoll_fd, other_fd)) {
    return cannot_make(errno);
  }
  return alarm;
}

AlarmFd::~AlarmFd() {
  ::close(timer_fd_);
  ::close(epoll_fd_);
}

void AlarmFd::set_ns(std::uint64_t ns) noexcept {
  arm(std::max<std::uint64_t>(ns, 1));  // 0 would switch it off
}

void AlarmFd::clear() noexcept {
  arm(0);
}

void AlarmFd::arm(std::uint64_t ns) noexcept {
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(ns / kSecond);
  when.it_value.tv_nsec = static_cast<long>(ns % kSecond);
  const int set = ::timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
  PENSTOCK_CHECK(set == 0, "timerfd {} errno {}", timer_fd_, errno);
}

void AlarmFd::wait() noexcept {
  pollfd readable{epoll_fd_, POLLIN, 0};
  while (::poll(&readable, 1, -1) < 0) {
    PENSTOCK_CHECK(errno == EINTR || errno == EAGAIN, "poll of a timer: errno {}", errno);
  }
}

}  // namespace penstock
