#include "bindings/deepspeed/step_traffic.h"

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock {

StepTraffic expect_traffic(const std::vector<PlanTensor>& tensors, const Placement& placement,
                           std::span<const std::uint32_t> fetches) {
  StepTraffic traffic;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Place place = placement.tensors[i].place;
    if (is_on_drive(place)) {
      const std::uint64_t reads = i < fetches.size() ? fetches[i] : tensors[i].reads_per_step;
      traffic.read_bytes += tensors[i].bytes * reads;
      traffic.write_bytes += tensors[i].bytes * tensors[i].writes_per_step;
    }
  }
  return traffic;
}

double lower_bound_seconds(const StepTraffic& traffic, const DriveSpeeds& speeds,
                           std::uint32_t ranks) {
  return ranks * std::max(static_cast<double>(traffic.read_bytes) / speeds.read_bytes_per_second,
                          static_cast<double>(traffic.write_bytes) / speeds.write_bytes_per_second);
}

std::optional<double> lower_bound_seconds(const StepTraffic& traffic,
                                          std::span<const PathConfig> paths, std::uint32_t ranks) {
  DriveSpeeds speeds;
  bool has_room = false;
  for (const PathConfig& path : paths) {
    if (path.max_bytes && *path.max_bytes < kBlockBytes) {
      continue;  // nothing is ever on it
    }
    has_room = true;
    if (!path.read_bytes_per_second || !path.write_bytes_per_second) {
      return std::nullopt;
    }
    speeds.read_bytes_per_second += static_cast<double>(*path.read_bytes_per_second);
    speeds.write_bytes_per_second += static_cast<double>(*path.write_bytes_per_second);
  }
  return has_room ? std::optional(lower_bound_seconds(traffic, speeds, ranks)) : std::nullopt;
}

}  // namespace penstock
