#pragma once

#include <cstdint>

namespace penstock::cli {

/// More ranks than any machine room has; keeps products of ranks and bytes within 64 bits.
inline constexpr std::uint32_t kRanksMax = 1'000'000;

}  // namespace penstock::cli
