#include "swap/plan/plan_tensor.h"

namespace penstock {

PlanTensor plan_tensor(const TensorInfo& info, std::uint64_t bytes) {
  const bool is_parameter = info.role == Role::kParam;
  PlanTensor tensor;
  tensor.name = info.name;
  tensor.bytes = bytes;
  tensor.reads_per_step = is_parameter ? 2 : 1;
  tensor.writes_per_step = is_parameter && !info.is_trained ? 0 : 1;
  return tensor;
}

}  // namespace penstock
