#include "bindings/deepspeed/step_traffic.h"

#include <algorithm>

namespace penstock {

StepTraffic expect_traffic(const std::vector<PlanTensor>& tensors, const Placement& placement,
                           std::span<const std::uint32_t> fetches) {
  StepTraffic traffic;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Place place = placement.tensors[i].place;
    if (is_on_drive(place)) {
      const bool is_known = i < fetches.size() && fetches[i] != 0;
      traffic.read_bytes += tensors[i].bytes * (is_known ? fetches[i] : tensors[i].reads_per_step);
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
  for (const PathConfig& path : paths) {
    if (!path.read_bytes_per_second || !path.write_bytes_per_second) {
      return std::nullopt;
    }
    speeds.read_bytes_per_second += static_cast<double>(*path.read_bytes_per_second);
    speeds.write_bytes_per_second += static_cast<double>(*path.write_bytes_per_second);
  }
  if (paths.empty()) {
    return std::nullopt;
  }
  return lower_bound_seconds(traffic, speeds, ranks);
}

}  // namespace penstock
