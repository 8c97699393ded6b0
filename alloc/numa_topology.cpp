#include "alloc/numa_topology.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "alloc/bytes.h"

namespace penstock {
namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

std::vector<std::uint32_t> cpu_numbers(hwloc_const_cpuset_t cpus) {
  std::vector<std::uint32_t> numbers;
  for (int cpu = hwloc_bitmap_first(cpus); cpu >= 0; cpu = hwloc_bitmap_next(cpus, cpu)) {
    numbers.push_back(static_cast<std::uint32_t>(cpu));
  }
  return numbers;
}

}  // namespace

NumaHome find_numa_home(std::span<const NumaNode> nodes, std::span<const std::uint32_t> cpus) {
  if (nodes.size() <= 1) {
    return {std::nullopt, "this machine has one NUMA node, so that no memory is bound"};
  }
  for (const NumaNode& node : nodes) {
    const bool all = std::ranges::all_of(
        cpus, [&node](std::uint32_t cpu) { return std::ranges::binary_search(node.cpus, cpu); });
    if (all && !cpus.empty()) {
      return {node.number,
              fmt::format("memory comes from NUMA node {}, to which all cores of this process "
                          "belong",
                          node.number)};
    }
  }
  return {std::nullopt,
          fmt::format("this process may run on several of {} NUMA nodes, so that no memory is "
                      "bound (numactl --cpunodebind gives it one)",
                      nodes.size())};
}

void NumaTopology::Destroy::operator()(hwloc_topology* topology) const noexcept {
  hwloc_topology_destroy(topology);
}

NumaTopology::NumaTopology(Handle topology, std::vector<NumaNode> nodes)
    : topology_(std::move(topology)), nodes_(std::move(nodes)) {}

Result<std::shared_ptr<const NumaTopology>> NumaTopology::read() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return system_error(errno, "cannot ask hwloc for the machine's topology");
  }
  Handle topology(raw);
  // Cores and memory only: looking at caches and devices as well takes several times as long.
  // Groups say which cores are beside which memory.
  if (hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
      hwloc_topology_set_type_filter(raw, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE) != 0 ||
      hwloc_topology_load(raw) != 0) {
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
  return std::shared_ptr<const NumaTopology>(
      new NumaTopology(std::move(topology), std::move(nodes)));
}

NumaHome NumaTopology::home() const {
  const Bitmap bound(hwloc_bitmap_alloc());
  if (!bound || hwloc_get_cpubind(topology_.get(), bound.get(), HWLOC_CPUBIND_THREAD) != 0) {
    return {std::nullopt,
            "the cores that this process may run on are not known, so that no memory "
            "is bound"};
  }
  hwloc_bitmap_and(bound.get(), bound.get(), hwloc_topology_get_topology_cpuset(topology_.get()));
  return find_numa_home(nodes_, cpu_numbers(bound.get()));
}

// Not strictly: where a node is full, its neighbours help out. A strict binding would have the
// kernel kill the process instead.
Result<void> NumaTopology::prefer(std::span<std::byte> memory, std::uint32_t node) const {
  const Bitmap nodes(hwloc_bitmap_alloc());
  const bool set = nodes && hwloc_bitmap_set(nodes.get(), node) == 0;
  if (!set || hwloc_set_area_membind(topology_.get(), memory.data(), memory.size(), nodes.get(),
                                     HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET) != 0) {
    return system_error(set ? errno : ENOMEM,
                        fmt::format("cannot take {} of memory from NUMA node {}",
                                    format_bytes(memory.size()), node));
  }
  return {};
}

}  // namespace penstock
