#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "swap/plan/engine_config.h"

namespace penstock {

/// The two numbers that bound memory, per process (docs/TUNING.md has the rule for users).
struct Budgets {
  std::uint64_t max_pinned_bytes = 0;
  std::uint64_t ram_bytes = 0;
  bool max_pinned_given = false;
  std::uint64_t device_bytes = 0;  ///< what hold_for_devices took
  std::uint64_t devices = 0;       ///< and for how many
  /// False: rules with `place: ram` may raise ram_bytes to what they need.
  bool ram_given = false;
  std::uint64_t memory_bytes = 0;   ///< EngineConfig's, at most the quarter
  std::uint64_t quarter_bytes = 0;  ///< a quarter of MemAvailable divided by the node's ranks

  /// Of max_pinned_bytes, for contents that go to and from so many devices; the pool gets the rest.
  void hold_for_devices(std::uint64_t bytes, std::uint64_t count);
  /// What max_pinned_bytes is to be in a configuration so that the pool gets what it has here.
  std::uint64_t written_pinned_bytes() const;
  /// For the end of an error about max_pinned_bytes: what devices hold of it, and the smallest
  /// value to write so that the pool gets `pool_bytes` beside them.
  std::string smallest_clause(std::uint64_t pool_bytes) const;
};

struct BudgetFacts {
  std::uint64_t mem_available_bytes = 0;  ///< read_mem_available_bytes()
  std::uint32_t ranks_on_node = 1;
  std::uint64_t largest_class_slot_bytes = 0;  ///< 0 before an inventory is known
};

/// max_pinned = given, else max(64 MiB, two slots of the largest class), capped at the quarter.
/// ram = given, else max(0, memory - max_pinned), memory capped at the quarter. Pure.
Budgets resolve_budgets(const EngineConfig& config, const BudgetFacts& facts);

/// MemAvailable in bytes, or what a control group (a container) leaves of it; 0 where neither can
/// be read.
std::uint64_t read_mem_available_bytes();

/// Memory that this process holds now, in bytes; 0 where that cannot be read.
std::uint64_t read_resident_bytes();

}  // namespace penstock
