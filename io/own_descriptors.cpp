#include "io/own_descriptors.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <new>

namespace penstock {
namespace {

/// Its number stays taken, by what can be neither read nor written: the child may yet destroy its
/// copy of the owner, which must close no other file.
void give_up(int fd) noexcept {
  ::close(fd);
  const int nothing = ::open("/", O_PATH | O_CLOEXEC);
  if (nothing >= 0 && nothing != fd) {
    (void)::dup3(nothing, fd, O_CLOEXEC);  // where it fails, the number is free
    ::close(nothing);
  }
}

}  // namespace

OwnDescriptors& OwnDescriptors::of_process() noexcept {
  // No memory is allocated for it: a file may be closed where there is none.
  alignas(OwnDescriptors) static std::byte memory[sizeof(OwnDescriptors)];
  static OwnDescriptors& descriptors = []() -> OwnDescriptors& {
    // Without memory for it children keep all.
    (void)::pthread_atfork(before_fork, in_parent, in_child);
    return *new (memory) OwnDescriptors;
  }();
  return descriptors;
}

void OwnDescriptors::add(int fd) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(fds_, fd) == fds_.end()) {
    fds_.push_back(fd);
  }
}

void OwnDescriptors::remove(int fd) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(fds_, fd);
}

void OwnDescriptors::before_fork() noexcept {
  of_process().mutex_.lock();
}

void OwnDescriptors::in_parent() noexcept {
  of_process().mutex_.unlock();
}

/// The only thread; may call only what signal handlers may.
void OwnDescriptors::in_child() noexcept {
  OwnDescriptors& descriptors = of_process();
  std::ranges::for_each(descriptors.fds_, give_up);
  descriptors.fds_.clear();
  descriptors.mutex_.unlock();
}

}  // namespace penstock
