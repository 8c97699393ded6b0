#pragma once

#include <string>
#include <vector>

#include "alloc/result.h"

namespace penstock::bench {

/// The first of `candidates` that is a Python with matplotlib. An error where none is: what each
/// said, and what to install. Takes a second or two, and keeps nothing running.
Result<std::string> find_plot_python(const std::vector<std::string>& candidates);

/// The SVG that it draws of a JSON report with courses. Errors: what went wrong there.
Result<std::string> draw_plot(const std::string& python, const std::string& report);

}  // namespace penstock::bench
