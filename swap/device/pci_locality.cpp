#include "swap/device/pci_locality.h"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace penstock {

std::optional<std::uint32_t> numa_node_of_pci(std::string address) {
  std::ranges::transform(address, address.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  std::ifstream file("/sys/bus/pci/devices/" + address + "/numa_node");
  std::int64_t node = -1;
  file >> node;
  return file && node >= 0 ? std::optional(static_cast<std::uint32_t>(node)) : std::nullopt;
}

}  // namespace penstock
