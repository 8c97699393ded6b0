#pragma once

#include <string>

#include "bench/report/report.h"

namespace penstock::bench {

/// `--output-format=json`: fio's keys where they mean the same, then ours (docs/BENCH.md).
std::string json_report(const Report& report);

}  // namespace penstock::bench
