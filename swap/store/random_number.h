#pragma once

#include <cstdint>

namespace penstock {

/// 64 bits that no other store and no other opening of this one has. From the system.
std::uint64_t random_number();

}  // namespace penstock
