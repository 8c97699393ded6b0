#pragma once

#include <string>

#include "alloc/result.h"
#include "bench/report/report.h"

namespace penstock::bench {

/// The lines of fio's bandwidth log: milliseconds, KiB/s, direction (0 read, 1 write), block in
/// bytes, priority. Those of both directions in the order of time.
std::string bandwidth_log(const JobResult& result, const Job& job);

/// Writes PREFIX_bw.N.log, N from 1, for each result whose job asks for it (`write_bw_log`).
/// Errors: errno and path.
Result<void> write_bandwidth_logs(const Report& report);

}  // namespace penstock::bench
