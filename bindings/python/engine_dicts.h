#pragma once

#include <nanobind/nanobind.h>

#include "swap/swap_engine.h"

namespace penstock::python {

/// What an engine says of itself, as Python's dicts under the names of the C++ members. With the
/// GIL held.
nanobind::dict placement_dict(const Placement& placement);
nanobind::dict stats_dict(const SwapStats& stats);
nanobind::dict state_dict(const TensorState& state);

}  // namespace penstock::python
