#pragma once

#include <string>

#include "bench/report/report.h"

namespace penstock::bench {

/// `--output-format=normal`: for people.
std::string text_report(const Report& report);

}  // namespace penstock::bench
