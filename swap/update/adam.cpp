#include "swap/update/adam.h"

#include <cmath>

#include "alloc/check.h"
#include "swap/update/adam_kernel.h"

namespace penstock {

void AdamStep::update(const AdamState& state) const {
  const std::size_t count = state.master.size();
  PENSTOCK_CHECK(state.exp_avg.size() == count && state.exp_avg_sq.size() == count &&
                     state.gradient.size() == count,
                 "{}, {}, {} and {} elements", count, state.exp_avg.size(), state.exp_avg_sq.size(),
                 state.gradient.size());
  const AdamFactors factors{.beta1 = beta1_,
                            .rest1 = 1.0F - beta1_,
                            .beta2 = beta2_,
                            .rest2 = 1.0F - beta2_,
                            .square_correction = square_correction_,
                            .epsilon = epsilon_,
                            .step_size = step_size_,
                            .decay = decay_};
  const AdamDecay decay = decay_ == 0.0F ? AdamDecay::kNone
                          : decoupled_   ? AdamDecay::kParameter
                                         : AdamDecay::kGradient;
  adam_kernel(decay)(state.master.data(), state.exp_avg.data(), state.exp_avg_sq.data(),
                     state.gradient.data(), count, factors);
}

AdamStep Adam::step(std::uint64_t step, const AdamOptions& options) {
  PENSTOCK_CHECK(step > 0, "steps count from 1 (learning rate {})", options.learning_rate);
  advance(step, options.beta1, options.beta2);
  AdamStep made;
  made.beta1_ = options.beta1;
  made.beta2_ = options.beta2;
  made.epsilon_ = options.epsilon;
  float moment_correction = 1.0F;
  if (options.bias_correction) {
    moment_correction = 1.0F - beta1_power_;
    made.square_correction_ = 1.0F / std::sqrt(1.0F - beta2_power_);
  }
  made.step_size_ = -options.learning_rate / moment_correction;
  made.decoupled_ = options.decoupled_decay;
  if (options.weight_decay > 0) {
    made.decay_ = options.decoupled_decay ? -options.learning_rate * options.weight_decay
                                          : options.weight_decay;
  }
  return made;
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
