#pragma once

#include "alloc/thread_safety.h"

namespace penstock {

/// What Clang's analysis takes for the mutex of an engine. Each part reaches that by a reference of
/// its own, which would be as many locks to the analysis; parts of two engines never meet, so that
/// one name does for all.
class PENSTOCK_CAPABILITY("the engine's lock") EngineLock {};
inline constexpr EngineLock engine_lock;

/// A member that is touched with the engine's lock only.
#define PENSTOCK_GUARDED PENSTOCK_GUARDED_BY(engine_lock)
/// A function that is called with the engine's lock.
#define PENSTOCK_NEEDS_LOCK PENSTOCK_REQUIRES(engine_lock)

}  // namespace penstock
