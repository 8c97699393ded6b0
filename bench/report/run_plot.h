#pragma once

#include <string>

#include "bench/report/report.h"

namespace penstock::bench {

/// What happened over time, as line_picture.py (JSON) takes it: for each group of jobs that ran
/// together bandwidth, and of jobs that swap what they had of pinned memory and how long callers
/// waited. Says whose time is simulated, or that nothing moved.
std::string run_plot(const Report& report);

}  // namespace penstock::bench
