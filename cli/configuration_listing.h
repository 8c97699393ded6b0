#pragma once

#include <string>

#include "bindings/deepspeed/config.h"

namespace penstock::cli {

/// Every value that penstock reads, by dotted key, with where it comes from (a file, the
/// environment, the command line, or the default). As a table, and as JSON (schema
/// penstock.config/1).
std::string configuration_text(const Config& config);
std::string configuration_json(const Config& config);

}  // namespace penstock::cli
