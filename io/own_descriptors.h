#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

namespace penstock {

/// The process's descriptors that no child is to keep: of scratch files, of rings, and of files
/// that may be locked (flock). Space on the drive, memory pinned for a ring and a lock last as long
/// as any copy of their descriptor, and a child made by fork() has a copy of each: it would keep
/// them when their owner has closed them or is dead. So a child gives its copies up as it begins,
/// which takes nothing from the parent's. Thread-safe.
class OwnDescriptors {
 public:
  /// Never destroyed: the process may fork while it ends.
  static OwnDescriptors& of_process() noexcept;

  void add(int fd);
  /// A child may keep it from here on.
  void remove(int fd) noexcept;
  /// Calls `close()`, which closes `fd`, whether it was added or not. No child comes between.
  template <class Close>
  void close(int fd, Close close);

 private:
  static void before_fork() noexcept;
  static void in_parent() noexcept;
  static void in_child() noexcept;

  std::mutex mutex_;
  std::vector<int> fds_;
};

template <class Close>
void OwnDescriptors::close(int fd, Close close) {
  std::unique_lock lock(mutex_);
  if (std::erase(fds_, fd) == 0) {
    lock.unlock();  // a drive that does not answer holds up no fork then
  }
  close();
}

}  // namespace penstock
