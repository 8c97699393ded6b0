#include "bench/report/report.h"

namespace penstock::bench {

std::vector<double> percentiles_of(const Job& job) {
  if (!job.percentiles.empty()) {
    return job.percentiles;
  }
  return {1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99};
}

double cpu_percent(const JobResult& result, double seconds) {
  const double elapsed = static_cast<double>(result.elapsed_ns) * 1e-9 * result.threads;
  return elapsed == 0 ? 0 : 100 * seconds / elapsed;
}

double cpu_ms_per_gb(const JobResult& result) {
  const auto bytes = static_cast<double>(result.read.io_bytes + result.write.io_bytes);
  return bytes == 0 ? 0 : (result.user_seconds + result.system_seconds) * 1e12 / bytes;
}

}  // namespace penstock::bench
