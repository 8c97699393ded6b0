#pragma once

#include <cstddef>
#include <functional>

namespace penstock {

/// Calls `update(begin, end)` for stretches of [0, runs) that make all of it, by `threads` threads
/// at most, the caller's among them. `update` does not throw, and its result does not depend on how
/// runs are stretched together. Thread-safe.
void for_stretches_of_runs(std::size_t runs, unsigned threads,
                           const std::function<void(std::size_t begin, std::size_t end)>& update);

}  // namespace penstock
