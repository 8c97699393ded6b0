#pragma once

#include <string>

#include "bench/report/report.h"

namespace penstock::bench {

/// `--html=FILE`: one page that needs nothing else: the command, the machine, a table of all
/// results, bandwidth over time, and every key of every job.
std::string html_report(const Report& report);

}  // namespace penstock::bench
