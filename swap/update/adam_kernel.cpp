#include "swap/update/adam_kernel.h"

#include <cmath>

#include "swap/update/blend.h"
#include "swap/update/kernels.h"

namespace penstock {
namespace {

template <AdamDecay kDecay, Fused kFused>
[[gnu::always_inline]] inline void update(float* __restrict master, float* __restrict exp_avg,
                                          float* __restrict exp_avg_sq,
                                          const float* __restrict gradient, std::size_t begin,
                                          std::size_t end, const AdamFactors& factors) {
  const AdamFactors f = factors;
  for (std::size_t i = begin; i < end; ++i) {
    float parameter = master[i];
    float slope = gradient[i];
    if constexpr (kDecay == AdamDecay::kGradient) {
      slope = std::fma(parameter, f.decay, slope);
    }
    const float moment = blend<kFused>(exp_avg[i], f.beta1, slope, f.rest1);
    const float square = blend<kFused>(exp_avg_sq[i], f.beta2, slope * slope, f.rest2);
    const float divisor = std::fma(std::sqrt(square), f.square_correction, f.epsilon);
    if constexpr (kDecay == AdamDecay::kParameter) {
      parameter = std::fma(parameter, f.decay, parameter);
    }
    master[i] = std::fma(moment / divisor, f.step_size, parameter);
    exp_avg[i] = moment;
    exp_avg_sq[i] = square;
  }
}

template <AdamDecay kDecay>
struct AdamBody {
  template <std::size_t kWidth>
  [[gnu::always_inline]] static void run(std::size_t count, float* master, float* exp_avg,
                                         float* exp_avg_sq, const float* gradient,
                                         const AdamFactors& factors) {
    const std::size_t whole = count - count % kWidth;
    update<kDecay, Fused::kNew>(master, exp_avg, exp_avg_sq, gradient, 0, whole, factors);
    update<kDecay, Fused::kOld>(master, exp_avg, exp_avg_sq, gradient, whole, count, factors);
  }
};

template <AdamDecay kDecay>
using AdamKernels =
    Kernels<AdamBody<kDecay>, float*, float*, float*, const float*, const AdamFactors&>;

}  // namespace

AdamKernel adam_kernel(AdamDecay decay) noexcept {
  switch (decay) {
    case AdamDecay::kParameter:
      return AdamKernels<AdamDecay::kParameter>::fastest();
    case AdamDecay::kGradient:
      return AdamKernels<AdamDecay::kGradient>::fastest();
    case AdamDecay::kNone:
      break;
  }
  return AdamKernels<AdamDecay::kNone>::fastest();
}

}  // namespace penstock
