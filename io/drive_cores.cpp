#include "io/drive_cores.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "alloc/numa_topology.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// The NUMA node that sysfs gives for a device; -1 there means unknown.
std::optional<std::uint32_t> read_numa_node(const fs::path& device) {
  std::ifstream file(device / "numa_node");
  int node = -1;
  return file >> node && node >= 0 ? std::optional(static_cast<std::uint32_t>(node)) : std::nullopt;
}

// A volume lists what it consists of in `slaves`, links to other block devices. Of a drive, some
// directory above is the bus device that knows its node. Appends what it finds, each drive once;
// nothing for a drive of which it is not known.
void collect_nodes(const fs::path& block_device, const fs::path& sysfs, int depth_left,
                   std::set<std::optional<std::uint32_t>>& nodes) {
  std::error_code error;
  bool is_volume = false;
  if (depth_left > 0) {
    fs::directory_iterator part(block_device / "slaves", error);
    for (; !error && part != fs::directory_iterator(); part.increment(error)) {
      std::error_code broken_link;
      is_volume = true;
      collect_nodes(fs::canonical(part->path(), broken_link), sysfs, depth_left - 1, nodes);
    }
  }
  if (is_volume) {
    return;
  }
  for (fs::path at = block_device; at != sysfs && at.has_relative_path(); at = at.parent_path()) {
    for (const fs::path& device : {at, at / "device"}) {
      if (const std::optional<std::uint32_t> node = read_numa_node(device)) {
        nodes.insert(node);
        return;
      }
    }
  }
  nodes.insert(std::nullopt);
}

}  // namespace

std::optional<std::uint32_t> numa_node_of_drive(const std::string& path, const std::string& sysfs) {
  constexpr int kVolumesInVolumesMax = 8;
  struct ::stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return std::nullopt;
  }
  std::error_code error;
  const fs::path root = fs::canonical(sysfs, error);
  const fs::path device = fs::canonical(
      root / fmt::format("dev/block/{}:{}", major(info.st_dev), minor(info.st_dev)), error);
  if (error) {
    return std::nullopt;
  }
  std::set<std::optional<std::uint32_t>> nodes;
  collect_nodes(device, root, kVolumesInVolumesMax, nodes);
  return nodes.size() == 1 ? *nodes.begin() : std::nullopt;
}

std::vector<std::uint32_t> cores_near_drives(const std::vector<std::string>& paths) {
  std::set<std::optional<std::uint32_t>> drive_nodes;
  for (const std::string& path : paths) {
    drive_nodes.insert(numa_node_of_drive(path));
  }
  if (drive_nodes.size() != 1 || !drive_nodes.begin()->has_value()) {
    return {};
  }
  const Result<std::shared_ptr<const NumaTopology>> topology = NumaTopology::read();
  if (!topology || (*topology)->nodes().size() < 2) {
    return {};
  }
  const std::vector<NumaNode>& nodes = (*topology)->nodes();
  const auto node = std::ranges::find(nodes, **drive_nodes.begin(), &NumaNode::number);
  return node == nodes.end() ? std::vector<std::uint32_t>() : node->cpus;
}

}  // namespace penstock
