#pragma once

#include <string>

#include "bench/report/report.h"

namespace penstock::bench {

/// `--output-format=json`: fio's keys where they mean the same, then ours (docs/BENCH.md).
/// With `course` each job has its `courses`, what happened over time, as plot.py draws it.
std::string json_report(const Report& report, bool course = false);

}  // namespace penstock::bench
