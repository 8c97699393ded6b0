#pragma once

#include <cstdint>

namespace penstock::bench {

inline constexpr std::uint64_t kMs = 1'000'000;  ///< In nanoseconds.

}  // namespace penstock::bench
