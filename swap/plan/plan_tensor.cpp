#include "swap/plan/plan_tensor.h"

namespace penstock {

PlanTensor plan_tensor(const TensorInfo& info, std::uint64_t bytes) {
  PlanTensor tensor;
  tensor.name = info.name;
  tensor.bytes = bytes;
  tensor.writes_per_step = info.is_trained ? 1 : 0;
  tensor.reads_per_step = info.role == Role::kParam ? 2 : tensor.writes_per_step;
  return tensor;
}

}  // namespace penstock
