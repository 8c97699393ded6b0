#pragma once

#include <string>

namespace penstock {

/// One line to stderr, or to PENSTOCK_LOG_FILE; from PENSTOCK_LOG_LEVEL (trace, debug, info, warn,
/// error, off; default warn) on. Thread-safe.
void log_warning(const std::string& sentence);
void log_info(const std::string& sentence);

}  // namespace penstock
