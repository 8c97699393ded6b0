#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

/// The NUMA node that a device on the PCI bus is nearest to (`0000:3B:00.0`, in any case), as
/// /sys/bus/pci/devices says; nothing where the machine has one node, or does not say.
std::optional<std::uint32_t> numa_node_of_pci(std::string address);

}  // namespace penstock
