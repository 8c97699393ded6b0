#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "swap/plan/placement.h"

namespace penstock {

/// Bytes between this rank and its drives in one training step.
struct StepTraffic {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
};

/// Every tensor on a drive, as often as a step reads and writes it; without padding. `fetches`: how
/// often the runtime fetches each tensor that it knows better than PlanTensor::reads_per_step.
StepTraffic expect_traffic(const std::vector<PlanTensor>& tensors, const Placement& placement,
                           std::span<const std::uint32_t> fetches = {});

/// What the drives of a machine do together.
struct DriveSpeeds {
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
};

/// Seconds that a step takes at least because of drives that `ranks` share: what is slower of
/// reading and writing, as if both went on at once. Latency is left out: with enough requests under
/// way it passes once a step, not once a tensor.
double lower_bound_seconds(const StepTraffic& traffic, const DriveSpeeds& speeds,
                           std::uint32_t ranks);

/// The same at the speeds that `paths` were measured with; those whose max_bytes hold no block do
/// not count. Nothing where no path is left, or one of them was not measured.
std::optional<double> lower_bound_seconds(const StepTraffic& traffic,
                                          std::span<const PathConfig> paths, std::uint32_t ranks);

}  // namespace penstock
