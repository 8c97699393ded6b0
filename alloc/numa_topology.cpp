#include "alloc/numa_topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace penstock {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }
};

std::vector<std::uint32_t> cpu_numbers(hwloc_const_cpuset_t cpus) {
  std::vector<std::uint32_t> numbers;
  for (int cpu = hwloc_bitmap_first(cpus); cpu >= 0; cpu = hwloc_bitmap_next(cpus, cpu)) {
    numbers.push_back(static_cast<std::uint32_t>(cpu));
  }
  return numbers;
}

}  // namespace

Result<std::vector<NumaNode>> read_numa_nodes() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return system_error(errno, "cannot ask hwloc for the machine's topology");
  }
  const std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
  if (hwloc_topology_load(raw) != 0) {
    return system_error(errno, "hwloc cannot read the machine's topology");
  }
  std::vector<NumaNode> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    nodes.push_back({node->os_index, cpu_numbers(node->cpuset), node->attr->numanode.local_memory});
  }
  if (nodes.empty()) {
    return fault(Fault::kUnsupported, "hwloc knows no memory of this machine");
  }
  std::ranges::sort(nodes, {}, &NumaNode::number);
  return nodes;
}

}  // namespace penstock
