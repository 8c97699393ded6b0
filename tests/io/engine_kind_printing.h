#pragma once

#include <ostream>

#include "io/engine_probe.h"

namespace penstock {

/// Found by GoogleTest where it prints a parameter of this type.
inline void PrintTo(EngineKind kind, std::ostream* out) {
  *out << engine_kind_name(kind);
}

}  // namespace penstock
