#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "alloc/buffer_pool.h"

namespace penstock {

/// Buffers of one size that were held at once.
struct HeldBuffers {
  std::uint64_t bytes = 0;  ///< of each, in whole 4 KiB
  std::uint32_t most = 0;
  bool operator==(const HeldBuffers&) const = default;
};

/// What a pool is to have.
struct PlannedPool {
  std::vector<ClassPlan> classes;  ///< slots and dedicated buffers
  std::uint64_t bytes = 0;         ///< pinned, for the classes and for buffers beside them
};

/// The pool that a plan lays out in so many pinned bytes; nothing where it refuses them as too few.
using PoolOfBudget = std::function<std::optional<PlannedPool>(std::uint64_t max_pinned_bytes)>;

/// Whether the pool has a pinned buffer for each of `held`: a slot that wastes little enough of
/// itself, or what the classes leave of its bytes. Pure.
bool holds_all(std::span<const HeldBuffers> held, PlannedPool pool);

/// The smallest budget, in whole MiB, whose pool holds all of `held`. Nothing where none does.
/// Pure; plans some twenty times.
std::optional<std::uint64_t> pinned_bytes_for(std::span<const HeldBuffers> held,
                                              const PoolOfBudget& pool_of);

}  // namespace penstock
