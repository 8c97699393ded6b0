#pragma once

#include <string>

#include "bench/report/report.h"

namespace penstock::bench {

/// `--output-format=terse`: a line a job with the fields of fio's terse version 3 in their places.
/// Those that mean nothing here (submission latency, page faults, context switches, depths, disks)
/// are 0.
std::string terse_report(const Report& report);

}  // namespace penstock::bench
