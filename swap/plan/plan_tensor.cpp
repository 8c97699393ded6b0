#include "swap/plan/plan_tensor.h"

#include <utility>

namespace penstock {

PlanTensor plan_tensor(std::string name, Role role, bool is_trained, std::uint64_t bytes) {
  PlanTensor tensor;
  tensor.name = std::move(name);
  tensor.bytes = bytes;
  tensor.writes_per_step = is_trained ? 1 : 0;
  tensor.reads_per_step = role == Role::kParam ? 2 : tensor.writes_per_step;
  return tensor;
}

}  // namespace penstock
