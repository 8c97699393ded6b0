#include "bench/report/report.h"

namespace penstock::bench {

double cpu_percent(const JobResult& result, double seconds) {
  const double elapsed = static_cast<double>(result.elapsed_ns) * 1e-9 * result.threads;
  return elapsed == 0 ? 0 : 100 * seconds / elapsed;
}

double cpu_ms_per_gb(const JobResult& result) {
  const auto bytes = static_cast<double>(result.read.io_bytes + result.write.io_bytes);
  return bytes == 0 ? 0 : (result.user_seconds + result.system_seconds) * 1e12 / bytes;
}

}  // namespace penstock::bench
