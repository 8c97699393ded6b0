#pragma once

#include <memory>

#include "io/io_engine.h"

namespace penstock {

/// Moves nothing and reports every transfer as done: a measurement over it is the cost of
/// everything but the drive. Reads leave memory as it was, writes are lost; so it is never chosen
/// automatically, only by name. Errors: EMFILE.
Result<std::unique_ptr<IoEngine>> make_null_engine(const IoEngineOptions& options);

}  // namespace penstock
