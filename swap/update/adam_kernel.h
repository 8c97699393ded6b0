#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

/// What all elements of one step share; see AdamStep.
struct AdamFactors {
  float beta1;
  float rest1;  ///< 1 - beta1
  float beta2;
  float rest2;
  float square_correction;  ///< 1/sqrt(1 - beta2^t)
  float epsilon;
  float step_size;  ///< -lr/(1 - beta1^t)
  float decay;      ///< -lr*wd of the parameter, or wd in the gradient
};

/// What weight decay changes.
enum class AdamDecay : std::uint8_t { kNone, kParameter, kGradient };

/// Updates `count` elements. The four do not overlap.
using AdamKernel = void (*)(std::size_t count, float* master, float* exp_avg, float* exp_avg_sq,
                            const float* gradient, const AdamFactors& factors);

/// The fastest that this machine runs. They differ in the last bits of what remains behind the last
/// whole vector: see AdamStep. Pure.
AdamKernel adam_kernel(AdamDecay decay) noexcept;

}  // namespace penstock
