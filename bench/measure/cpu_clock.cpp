#include "bench/measure/cpu_clock.h"

#include <sys/resource.h>

namespace penstock::bench {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

CpuTime cpu_time(decltype(RUSAGE_SELF) of_whom) noexcept {
  rusage usage{};
  if (::getrusage(of_whom, &usage) != 0) {
    return {};
  }
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}

}  // namespace

CpuTime thread_cpu_time() noexcept {
  return cpu_time(RUSAGE_THREAD);
}

CpuTime process_cpu_time() noexcept {
  return cpu_time(RUSAGE_SELF);
}

}  // namespace penstock::bench
