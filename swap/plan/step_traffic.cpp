#include "swap/plan/step_traffic.h"

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

}  // namespace penstock
