#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"

struct hwloc_topology;

namespace penstock {

/// A part of the machine whose cores reach its memory at the same cost.
struct NumaNode {
  std::uint32_t number = 0;  ///< as the system counts them (`/sys/devices/system/node`)
  std::vector<std::uint32_t>
      cpus;                 ///< numbers of the cores that this process may run on, ascending
  std::uint64_t bytes = 0;  ///< memory of the node
};

/// Where memory that some thread uses should lie.
struct NumaHome {
  std::optional<std::uint32_t> node;  ///< nothing: wherever the kernel puts it
  std::string reason;                 ///< why there, or why nowhere in particular; for people
};

/// The node that all of `cpus` belong to, if there is more than one to choose from; of several
/// (two kinds of memory beside the same cores) the first. Pure.
NumaHome find_numa_home(std::span<const NumaNode> nodes, std::span<const std::uint32_t> cpus);

/// The machine's NUMA nodes, as hwloc sees them. Immutable, so that any thread may ask.
class NumaTopology {
 public:
  /// Takes milliseconds. Errors: hwloc does not know it.
  static Result<std::shared_ptr<const NumaTopology>> read();

  /// In the order of their numbers; at least one.
  const std::vector<NumaNode>& nodes() const noexcept { return nodes_; }
  /// Where the calling thread's memory should lie, by the cores that it is bound to now.
  NumaHome home() const;

  /// Has the pages of `memory` that are not there yet come from `node` as long as that has any.
  /// Whole pages only. Errors: errno (a container may forbid it); the memory is usable either way.
  Result<void> prefer(std::span<std::byte> memory, std::uint32_t node) const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const noexcept;
  };
  using Handle = std::unique_ptr<hwloc_topology, Destroy>;

  NumaTopology(Handle topology, std::vector<NumaNode> nodes);

  Handle topology_;
  std::vector<NumaNode> nodes_;
};

}  // namespace penstock
