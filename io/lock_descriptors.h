#pragma once

#include <mutex>
#include <vector>

namespace penstock {

/// The process's descriptors that may hold the lock on their file (flock). A lock lasts as long as
/// any copy of its descriptor, and a child made by fork() has a copy of each: it would keep the
/// lock when its owner has closed the file or is dead. So a child gives its copies up as it begins,
/// which takes nothing from the parent's. Thread-safe.
class LockDescriptors {
 public:
  /// Never destroyed: the process may fork while it ends.
  static LockDescriptors& of_process() noexcept;

  void add(int fd);
  /// Before it is closed.
  void remove(int fd) noexcept;

 private:
  static void before_fork() noexcept;
  static void in_parent() noexcept;
  static void in_child() noexcept;

  std::mutex mutex_;
  std::vector<int> fds_;
};

}  // namespace penstock
