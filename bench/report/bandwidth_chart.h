#pragma once

#include <string>

#include "bench/report/report.h"

namespace penstock::bench {

/// Bandwidth of every result over the time of its group, as one SVG that needs nothing else; says
/// so where nothing was measured.
std::string bandwidth_chart(const Report& report);

/// What may stand between tags and in quotes of HTML and SVG.
std::string escaped(const std::string& text);

}  // namespace penstock::bench
