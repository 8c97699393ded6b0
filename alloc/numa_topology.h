#pragma once

#include <cstdint>
#include <vector>

#include "alloc/result.h"

namespace penstock {

/// A part of the machine whose cores reach its memory at the same cost.
struct NumaNode {
  std::uint32_t number = 0;  ///< as the system counts them (`/sys/devices/system/node`)
  std::vector<std::uint32_t>
      cpus;                 ///< numbers of the cores that this process may run on, ascending
  std::uint64_t bytes = 0;  ///< memory of the node
};

/// The machine's NUMA nodes in the order of their numbers; at least one. Errors: hwloc cannot tell.
Result<std::vector<NumaNode>> read_numa_nodes();

}  // namespace penstock
