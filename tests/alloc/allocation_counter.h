#pragma once

#include <cstdint>

namespace penstock {

/// How often this thread has called operator new, or under Clang's thread sanitizer allocated at
/// all, for what must not. Counts in every program that links allocation_counter.cpp.
std::uint64_t allocations_of_this_thread();
/// The same of all threads together.
std::uint64_t allocations_of_all_threads();

}  // namespace penstock
