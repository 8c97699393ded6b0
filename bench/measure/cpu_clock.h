#pragma once

#include <sys/resource.h>

namespace penstock::bench {

/// What was computed so far, in seconds.
struct CpuTime {
  double user_seconds = 0;
  double system_seconds = 0;

  double seconds() const noexcept { return user_seconds + system_seconds; }
  CpuTime operator-(const CpuTime& other) const noexcept {
    return {user_seconds - other.user_seconds, system_seconds - other.system_seconds};
  }
  CpuTime operator+(const CpuTime& other) const noexcept {
    return {user_seconds + other.user_seconds, system_seconds + other.system_seconds};
  }
};

/// RUSAGE_THREAD: of the calling thread, without what the kernel does for it on threads of its own.
/// RUSAGE_SELF: of all threads of the process, those that have ended and the kernel's helpers
/// (io-wq, SQPOLL) included.
inline CpuTime cpu_time(decltype(RUSAGE_SELF) of_whom) noexcept {
  rusage usage{};
  (void)::getrusage(of_whom, &usage);  // what fails leaves zeros
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}

}  // namespace penstock::bench
