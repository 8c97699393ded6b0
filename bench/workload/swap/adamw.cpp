#include "bench/workload/swap/adamw.h"

#include <cmath>

#include "alloc/check.h"

namespace penstock {

void AdamW::update(const AdamWState& state, std::uint64_t step) const {
  const std::size_t count = state.master.size();
  PENSTOCK_CHECK(step > 0 && state.exp_avg.size() == count && state.exp_avg_sq.size() == count &&
                     state.gradient.size() == count,
                 "step {} over {}, {}, {} and {} elements", step, count, state.exp_avg.size(),
                 state.exp_avg_sq.size(), state.gradient.size());
  const auto beta1 = static_cast<float>(options_.beta1);
  const auto beta2 = static_cast<float>(options_.beta2);
  const float rest1 = 1.0F - beta1;
  const float rest2 = 1.0F - beta2;
  const auto epsilon = static_cast<float>(options_.epsilon);
  const auto t = static_cast<double>(step);
  const auto correction2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options_.beta2, t)));
  const auto step_size =
      static_cast<float>(-options_.learning_rate / (1.0 - std::pow(options_.beta1, t)));
  const auto decay = static_cast<float>(-options_.learning_rate * options_.weight_decay);
  float* const p = state.master.data();
  float* const m = state.exp_avg.data();
  float* const v = state.exp_avg_sq.data();
  const float* const g = state.gradient.data();
  for (std::size_t i = 0; i < count; ++i) {
    m[i] = m[i] * beta1 + rest1 * g[i];
    v[i] = v[i] * beta2 + rest2 * (g[i] * g[i]);
    const float denominator = std::sqrt(v[i]) * correction2 + epsilon;
    p[i] = p[i] + decay * p[i];
    p[i] = p[i] + step_size * (m[i] / denominator);
  }
}

}  // namespace penstock
