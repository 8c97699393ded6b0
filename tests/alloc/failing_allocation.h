#pragma once

#include <cstdint>

namespace penstock {

/// What operator new refuses, on whatever thread. In every program that links
/// failing_allocation.cpp.
enum class Refuse : std::uint8_t {
  kOne,       ///< one allocation
  kAllAfter,  ///< that one and all that follow
};

/// The `number`-th allocation from now on (1: the next) is refused.
void refuse_allocation(std::uint64_t number, Refuse refuse);
/// Whether any was refused since. None is from now on.
bool allow_allocations();

}  // namespace penstock
