#pragma once

#include <string>

#include "alloc/result.h"
#include "bench/report/report.h"

namespace penstock::bench {

/// `--html=FILE`: one page that needs nothing else, neither scripts nor the network: the command,
/// the machine, tables of all results, `picture` (an SVG, or why there is none), the plans, and
/// every key of every job.
std::string html_report(const Report& report, const Result<std::string>& picture);

}  // namespace penstock::bench
