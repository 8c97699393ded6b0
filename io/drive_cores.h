#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

/// The NUMA node that the drive under `path` is plugged into. Through a volume of several drives
/// (LVM, RAID) where all agree. Nothing where the machine does not say: virtual disks, file systems
/// without a device, drives in several nodes. `sysfs` is /sys but for tests.
std::optional<std::uint32_t> numa_node_of_drive(const std::string& path,
                                                const std::string& sysfs = "/sys");

/// The cores next to the drives under all of `paths`. Empty where the machine does not say, or
/// where they are next to different cores: one loop serves them all.
std::vector<std::uint32_t> cores_near_drives(const std::vector<std::string>& paths);

}  // namespace penstock
