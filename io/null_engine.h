#pragma once

#include <memory>

#include "io/io_engine.h"

namespace penstock {

/// Moves nothing and says that it has moved everything: what is measured over it is the cost of
/// whoever measures. Reads leave memory as it was, writes are lost; so nobody gets it who has not
/// asked for it by name. Errors: EMFILE.
Result<std::unique_ptr<IoEngine>> make_null_engine(const IoEngineOptions& options);

}  // namespace penstock
