#pragma once

#include <cstdint>

namespace penstock {

/// Remembers in which process it was made. In a child made by fork() the threads of its parent are
/// missing and their locks may be held for ever, so every object that owns threads or locks asks
/// its mark first. Costs no system call. Thread-safe.
class ProcessMark {
 public:
  ProcessMark() noexcept : forks_(forks()) {}
  /// This is a forked child of the process that made the mark.
  bool elsewhere() const noexcept { return forks() != forks_; }

 private:
  /// How often this process and its ancestors were forked since the library was loaded.
  static std::uint64_t forks() noexcept;

  std::uint64_t forks_;
};

}  // namespace penstock
