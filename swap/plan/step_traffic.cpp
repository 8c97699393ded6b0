#include "swap/plan/step_traffic.h"

#include <algorithm>

namespace penstock {

StepTraffic expect_traffic(const std::vector<PlanTensor>& tensors, const Placement& placement) {
  StepTraffic traffic;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Place place = placement.tensors[i].place;
    if (place != Place::kRam && place != Place::kDevice) {
      traffic.read_bytes += tensors[i].bytes * tensors[i].reads_per_step;
      traffic.write_bytes += tensors[i].bytes * tensors[i].writes_per_step;
    }
  }
  return traffic;
}

std::optional<double> lower_bound_seconds(const StepTraffic& traffic,
                                          std::span<const PathConfig> paths, std::uint32_t ranks) {
  double read_rate = 0;
  double write_rate = 0;
  for (const PathConfig& path : paths) {
    if (!path.read_bytes_per_second || !path.write_bytes_per_second) {
      return std::nullopt;
    }
    read_rate += static_cast<double>(*path.read_bytes_per_second);
    write_rate += static_cast<double>(*path.write_bytes_per_second);
  }
  if (paths.empty()) {
    return std::nullopt;
  }
  return ranks * std::max(static_cast<double>(traffic.read_bytes) / read_rate,
                          static_cast<double>(traffic.write_bytes) / write_rate);
}

}  // namespace penstock
