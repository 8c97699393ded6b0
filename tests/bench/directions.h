#pragma once

#include "bench/job/job.h"

namespace penstock::bench {

inline constexpr Direction kRead{true, false, false};
inline constexpr Direction kWrite{false, true, false};

}  // namespace penstock::bench
