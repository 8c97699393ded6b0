#pragma once

#include <string>

#include "bench/report/report.h"

namespace penstock::bench {

/// `--output-format=json`: fio's keys where they mean the same, then ours (docs/BENCH.md). `plus`:
/// json+, with every bucket of the latencies.
std::string json_report(const Report& report, bool plus);

}  // namespace penstock::bench
