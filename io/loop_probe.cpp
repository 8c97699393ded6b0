#include "io/loop_probe.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string_view>

namespace penstock {
namespace {

// Closed with its owner, once there is one.
struct Descriptor {
  explicit Descriptor(int made) : fd(made) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) {
      ::close(fd);
    }
  }

  int fd;
};

Result<void> worked(std::string_view call, std::int64_t result) {
  if (result >= 0 || errno == EINTR || errno == EAGAIN) {
    return {};
  }
  const bool is_full = errno == EMFILE || errno == ENFILE;
  return system_error(errno,
                      fmt::format("cannot start the I/O loop, which needs {} ({})", call,
                                  is_full ? "`ulimit -n` limits open files"
                                          : "a seccomp filter, as containers have, may forbid it"));
}

Result<void> probe_waiting(const Descriptor& epoll, const Descriptor& event) {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  PENSTOCK_TRY(worked("epoll_ctl", ::epoll_ctl(epoll.fd, EPOLL_CTL_ADD, event.fd, &wanted)));
  epoll_event come{};
  PENSTOCK_TRY(worked("epoll_wait", ::epoll_wait(epoll.fd, &come, 1, 0)));
  pollfd readable{event.fd, POLLIN, 0};
  return worked("poll", ::poll(&readable, 1, 0));
}

}  // namespace

Result<void> probe_loop_calls() {
  const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  PENSTOCK_TRY(worked("epoll_create1", epoll.fd));
  const Descriptor event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  PENSTOCK_TRY(worked("eventfd2", event.fd));
  const Descriptor timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  PENSTOCK_TRY(worked("timerfd_create", timer.fd));
  const itimerspec never{};
  PENSTOCK_TRY(worked("timerfd_settime", ::timerfd_settime(timer.fd, 0, &never, nullptr)));
  int is_on = 1;
  PENSTOCK_TRY(worked("ioctl", ::ioctl(event.fd, FIONBIO, &is_on)));
  std::uint64_t one = 1;
  PENSTOCK_TRY(worked("write", ::write(event.fd, &one, sizeof one)));
  PENSTOCK_TRY(probe_waiting(epoll, event));
  return worked("read", ::read(event.fd, &one, sizeof one));
}

}  // namespace penstock
