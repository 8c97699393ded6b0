#include "bench/workload/swap/inventory_subset.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <vector>

namespace penstock::bench {
namespace {

// Of `count` tensors that share `left_bytes` of which `wanted_bytes` are wanted.
std::size_t share(std::size_t count, double wanted_bytes, double left_bytes) {
  const double ratio = std::clamp(wanted_bytes / left_bytes, 0.0, 1.0);
  return static_cast<std::size_t>(std::floor(static_cast<double>(count) * ratio + 0.5));
}

}  // namespace

Inventory inventory_subset(const Inventory& inventory, std::uint64_t bytes) {
  if (inventory.bytes() <= bytes || inventory.tensors.empty()) {
    return inventory;
  }
  std::map<std::uint64_t, std::vector<std::size_t>, std::greater<>> by_size;
  for (std::size_t i = 0; i < inventory.tensors.size(); ++i) {
    by_size[inventory.tensors[i].bytes()].push_back(i);
  }
  auto wanted_bytes = static_cast<double>(bytes);
  auto left_bytes = static_cast<double>(inventory.bytes());
  std::vector<std::size_t> chosen;
  for (const auto& [size, members] : by_size) {
    if (size == 0) {
      continue;
    }
    const std::size_t count = share(members.size(), wanted_bytes, left_bytes);
    for (std::size_t i = 0; i < count; ++i) {
      chosen.push_back(members[(2 * i + 1) * members.size() / (2 * count)]);
    }
    wanted_bytes -= static_cast<double>(size) * static_cast<double>(count);
    left_bytes -= static_cast<double>(size) * static_cast<double>(members.size());
  }
  if (chosen.empty()) {
    chosen.push_back(by_size.rbegin()->second.front());
  }
  std::ranges::sort(chosen);
  Inventory subset;
  for (const std::size_t index : chosen) {
    subset.tensors.push_back(inventory.tensors[index]);
  }
  return subset;
}

}  // namespace penstock::bench
