#include "bench/measure/job_result.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace penstock::bench {
void DirectionResult::merge(const DirectionResult& other) {
  io_bytes += other.io_bytes;
  total_ios += other.total_ios;
  short_ios += other.short_ios;
  runtime_ns = std::max(runtime_ns, other.runtime_ns);
  clat.merge(other.clat);
}

void SwapResult::merge(const SwapResult& other) {
  const double cpu_seconds =
      (cpu_ms_per_gb * static_cast<double>(read_bytes + write_bytes) +
       other.cpu_ms_per_gb * static_cast<double>(other.read_bytes + other.write_bytes)) *
      1e-12;
  const double hidden_ns =
      overlap * static_cast<double>(busy_ns) + other.overlap * static_cast<double>(other.busy_ns);
  stall_ns += other.stall_ns;
  busy_ns += other.busy_ns;
  overlap = busy_ns == 0 ? 0 : hidden_ns / static_cast<double>(busy_ns);
  hits += other.hits;
  late += other.late;
  misses += other.misses;
  pinned_bytes += other.pinned_bytes;
  peak_live_bytes += other.peak_live_bytes;
  pageable_bytes += other.pageable_bytes;
  pool_waits += other.pool_waits;
  padding_bytes += other.padding_bytes;
  read_bytes += other.read_bytes;
  write_bytes += other.write_bytes;
  set_cpu(cpu_seconds);
}

double JobResult::cpu_percent(double seconds) const noexcept {
  const double elapsed = static_cast<double>(elapsed_ns) * 1e-9 * threads;
  return elapsed == 0 ? 0 : 100 * seconds / elapsed;
}

double JobResult::cpu_ms_per_gb() const noexcept {
  const auto bytes = static_cast<double>(read.io_bytes + write.io_bytes);
  return bytes == 0 ? 0 : (user_seconds + system_seconds) * 1e12 / bytes;
}

void JobResult::fail(const Error& why) {
  error = why.system_errno() != 0 ? why.system_errno() : EINVAL;
  error_message = why.message;
}

Error JobResult::failure() const {
  return {std::error_code(error, std::generic_category()), error_message, {}, {}};
}

void JobResult::merge(const JobResult& other) {
  threads += other.threads;
  if (error == 0 && error_message.empty()) {
    error = other.error;
    error_message = other.error_message;
  }
  interrupted = interrupted || other.interrupted;
  read.merge(other.read);
  write.merge(other.write);
  courses.insert(courses.end(), other.courses.begin(), other.courses.end());
  elapsed_ns = std::max(elapsed_ns, other.elapsed_ns);
  user_seconds += other.user_seconds;
  system_seconds += other.system_seconds;
  if (swap && other.swap) {
    swap->merge(*other.swap);
  } else if (other.swap) {
    swap = other.swap;
  }
}

}  // namespace penstock::bench
