#include "swap/update/adam_kernel.h"

#include <array>
#include <cmath>

// The compiler makes vectors of one loop, once for each set of instructions: what a library of
// vector types would write by hand, without depending on one.

namespace penstock {
namespace {

/// Which of two products is rounded before the sum: the op's vectors and its scalar code differ.
enum class Fused : std::uint8_t { kNew, kOld };

template <Fused kFused>
[[gnu::always_inline]] inline float blend(float old, float beta, float fresh, float rest) {
  if constexpr (kFused == Fused::kNew) {
    return std::fma(fresh, rest, old * beta);
  } else {
    return std::fma(old, beta, fresh * rest);
  }
}

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

using ByDecay = std::array<AdamKernel, 3>;  // by AdamDecay

// One row of kernels; the attribute says for which instructions, `width` how many elements one of
// them takes.
#define PENSTOCK_ADAM_KERNELS(name, width, attribute)                                          \
  template <AdamDecay kDecay>                                                                  \
  attribute void name(float* master, float* exp_avg, float* exp_avg_sq, const float* gradient, \
                      std::size_t count, const AdamFactors& factors) {                         \
    const std::size_t whole = count - count % (width);                                         \
    update<kDecay, Fused::kNew>(master, exp_avg, exp_avg_sq, gradient, 0, whole, factors);     \
    update<kDecay, Fused::kOld>(master, exp_avg, exp_avg_sq, gradient, whole, count, factors); \
  }                                                                                            \
  constexpr ByDecay name##_by_decay {                                                          \
    name<AdamDecay::kNone>, name<AdamDecay::kParameter>, name<AdamDecay::kGradient>            \
  }

PENSTOCK_ADAM_KERNELS(update_anywhere, 4U, );
#ifdef __x86_64__
PENSTOCK_ADAM_KERNELS(update_avx2, 8U, [[gnu::target("avx2,fma")]]);
PENSTOCK_ADAM_KERNELS(update_avx512, 16U, [[gnu::target("avx512f,avx2,fma")]]);
#endif

struct Kernels {
  std::string_view instructions;
  const ByDecay& by_decay;
};

Kernels fastest() noexcept {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") != 0) {
    return {"avx512", update_avx512_by_decay};
  }
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
    return {"avx2", update_avx2_by_decay};
  }
#endif
  return {"any", update_anywhere_by_decay};
}

const Kernels& kernels() noexcept {
  static const Kernels chosen = fastest();
  return chosen;
}

}  // namespace

std::string_view adam_instructions() noexcept {
  return kernels().instructions;
}

AdamKernel adam_kernel(AdamDecay decay) noexcept {
  return kernels().by_decay[static_cast<std::size_t>(decay)];
}

}  // namespace penstock
