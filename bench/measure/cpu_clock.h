#pragma once

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

/// Of the calling thread. What the kernel does for it on threads of its own is not in it.
CpuTime thread_cpu_time() noexcept;
/// Of all threads of the process, those that have ended and the kernel's helpers (io-wq, SQPOLL)
/// included.
CpuTime process_cpu_time() noexcept;

}  // namespace penstock::bench
