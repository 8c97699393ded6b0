#include "bench/measure/job_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace penstock::bench {
namespace {

double ms_per_gb(const CpuTime& cpu, std::uint64_t bytes) noexcept {
  return bytes == 0 ? 0 : cpu.seconds() * 1e12 / static_cast<double>(bytes);
}

}  // namespace

void DirectionResult::merge(const DirectionResult& other) {
  io_bytes += other.io_bytes;
  total_ios += other.total_ios;
  short_ios += other.short_ios;
  runtime_ns = std::max(runtime_ns, other.runtime_ns);
  clat.merge(other.clat);
}

double SwapResult::overlap() const noexcept {
  return busy_ns == 0 ? 0 : static_cast<double>(hidden_ns) / static_cast<double>(busy_ns);
}

double SwapResult::cpu_ms_per_gb(const CpuTime& cpu) const noexcept {
  return ms_per_gb(cpu, read_bytes + write_bytes);
}

void SwapResult::merge(const SwapResult& other) {
  stall_ns += other.stall_ns;
  busy_ns += other.busy_ns;
  hidden_ns += other.hidden_ns;
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
}

std::string PairResult::warning() const {
  if (short_seconds == 0) {
    return {};
  }
  return fmt::format(
      "{} was done in {:.0f} ms, of which its start and the steps of its clock are a large part: "
      "the ratios say little, let the job move more",
      peer, short_seconds * 1000);
}

double JobResult::cpu_percent(double seconds) const noexcept {
  const double elapsed = static_cast<double>(elapsed_ns) * 1e-9 * threads;
  return elapsed == 0 ? 0 : 100 * seconds / elapsed;
}

double JobResult::cpu_ms_per_gb() const noexcept {
  return ms_per_gb(cpu, read.io_bytes + write.io_bytes);
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
  cpu = cpu + other.cpu;
  if (swap && other.swap) {
    swap->merge(*other.swap);
  } else if (other.swap) {
    swap = other.swap;
  }
}

}  // namespace penstock::bench
