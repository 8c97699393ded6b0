#include "swap/update/adam.h"

#include <cmath>

#include "alloc/check.h"

namespace penstock {

void AdamStep::update(const AdamState& state) const {
  const std::size_t count = state.master.size();
  PENSTOCK_CHECK(state.exp_avg.size() == count && state.exp_avg_sq.size() == count &&
                     state.gradient.size() == count,
                 "{}, {}, {} and {} elements", count, state.exp_avg.size(), state.exp_avg_sq.size(),
                 state.gradient.size());
  adam_kernel(decay_)(count, state.master.data(), state.exp_avg.data(), state.exp_avg_sq.data(),
                      state.gradient.data(), factors_);
}

AdamStep Adam::step(std::uint64_t step, const AdamOptions& options) {
  advance(step, options.beta1, options.beta2);
  const bool corrects = options.bias_correction;
  const bool decays = options.weight_decay > 0;
  const bool decoupled = options.decoupled_decay;
  return {
      step,
      {.beta1 = options.beta1,
       .rest1 = 1.0F - options.beta1,
       .beta2 = options.beta2,
       .rest2 = 1.0F - options.beta2,
       .square_correction = corrects ? 1.0F / std::sqrt(1.0F - beta2_power_) : 1.0F,
       .epsilon = options.epsilon,
       .step_size = -options.learning_rate / (corrects ? 1.0F - beta1_power_ : 1.0F),
       .decay = decoupled ? -options.learning_rate * options.weight_decay : options.weight_decay},
      !decays     ? AdamDecay::kNone
      : decoupled ? AdamDecay::kParameter
                  : AdamDecay::kGradient};
}

void Adam::advance(std::uint64_t step, float beta1, float beta2) {
  const bool same_betas = beta1 == beta1_ && beta2 == beta2_;
  if (same_betas && step == step_) {
    return;
  }
  if (same_betas && step == step_ + 1) {
    beta1_power_ *= beta1;
    beta2_power_ *= beta2;
  } else {
    const auto exponent = static_cast<double>(step);
    beta1_power_ = static_cast<float>(std::pow(static_cast<double>(beta1), exponent));
    beta2_power_ = static_cast<float>(std::pow(static_cast<double>(beta2), exponent));
  }
  step_ = step;
  beta1_ = beta1;
  beta2_ = beta2;
}

}  // namespace penstock
