#include "swap/update/lion.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "alloc/check.h"
#include "swap/update/blend.h"
#include "swap/update/kernels.h"

namespace penstock {
namespace {

struct LionFactors {
  float beta1;
  float rest1;  // 1 - beta1
  float beta2;
  float rest2;
  float learning_rate;
  float kept;  // 1 - lr*wd
};

/// Against `direction`, whose size does not count. The op's scalar code ignores the sign of the
/// rate, too; its vectors keep it, so that they climb with a rate below 0.
template <Fused kFused>
[[gnu::always_inline]] inline float change_against(float direction, float rate) {
  if constexpr (kFused == Fused::kNew) {
    constexpr std::uint32_t kSign = 1U << 31;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(-rate) ^
                                (std::bit_cast<std::uint32_t>(direction) & kSign));
  } else {
    return -std::copysign(rate, direction);
  }
}

template <bool kDecays, Fused kFused>
[[gnu::always_inline]] inline void update(float* __restrict master, float* __restrict exp_avg,
                                          const float* __restrict gradient, std::size_t begin,
                                          std::size_t end, const LionFactors& factors) {
  const LionFactors f = factors;
  for (std::size_t i = begin; i < end; ++i) {
    const float direction = blend<kFused>(exp_avg[i], f.beta1, gradient[i], f.rest1);
    const float change = change_against<kFused>(direction, f.learning_rate);
    master[i] = kDecays ? std::fma(master[i], f.kept, change) : master[i] + change;
    exp_avg[i] = blend<kFused>(exp_avg[i], f.beta2, gradient[i], f.rest2);
  }
}

template <bool kDecays>
struct LionBody {
  template <std::size_t kWidth>
  [[gnu::always_inline]] static void run(std::size_t count, float* master, float* exp_avg,
                                         const float* gradient, const LionFactors& factors) {
    const std::size_t whole = count - count % kWidth;
    update<kDecays, Fused::kNew>(master, exp_avg, gradient, 0, whole, factors);
    update<kDecays, Fused::kOld>(master, exp_avg, gradient, whole, count, factors);
  }
};

template <bool kDecays>
using LionKernels = Kernels<LionBody<kDecays>, float*, float*, const float*, const LionFactors&>;

}  // namespace

void lion_step(const LionOptions& options, std::span<float> master, std::span<float> exp_avg,
               std::span<const float> gradient) {
  const std::size_t count = master.size();
  PENSTOCK_CHECK(exp_avg.size() == count && gradient.size() == count, "{}, {} and {} elements",
                 count, exp_avg.size(), gradient.size());
  const LionFactors factors{.beta1 = options.beta1,
                            .rest1 = 1.0F - options.beta1,
                            .beta2 = options.beta2,
                            .rest2 = 1.0F - options.beta2,
                            .learning_rate = options.learning_rate,
                            .kept = std::fma(-options.learning_rate, options.weight_decay, 1.0F)};
  const auto kernel =
      options.weight_decay > 0 ? LionKernels<true>::fastest() : LionKernels<false>::fastest();
  kernel(count, master.data(), exp_avg.data(), gradient.data(), factors);
}

}  // namespace penstock
