#include "swap/update/adagrad.h"

#include <cmath>
#include <cstdint>

#include "alloc/check.h"
#include "swap/update/kernels.h"

namespace penstock {
namespace {

// What is added to a parameter is rounded before in the op's scalar code, which keeps it.
enum class Change : std::uint8_t { kFused, kRounded };

template <bool kDecays, Change kChange>
[[gnu::always_inline]] inline void update(float* __restrict master, float* __restrict exp_avg_sq,
                                          const float* __restrict gradient, std::size_t begin,
                                          std::size_t end, const AdagradOptions& options) {
  const AdagradOptions o = options;
  for (std::size_t i = begin; i < end; ++i) {
    const float parameter = master[i];
    const float slope = kDecays ? std::fma(parameter, o.weight_decay, gradient[i]) : gradient[i];
    const float square = std::fma(slope, slope, exp_avg_sq[i]);
    const float direction = slope / (std::sqrt(square) + o.epsilon);
    master[i] = kChange == Change::kFused ? std::fma(direction, -o.learning_rate, parameter)
                                          : parameter + direction * -o.learning_rate;
    exp_avg_sq[i] = square;
  }
}

template <bool kDecays>
struct AdagradBody {
  template <std::size_t kWidth>
  [[gnu::always_inline]] static void run(std::size_t count, float* master, float* exp_avg_sq,
                                         const float* gradient, const AdagradOptions& options) {
    const std::size_t whole = count - count % kWidth;
    update<kDecays, Change::kFused>(master, exp_avg_sq, gradient, 0, whole, options);
    update<kDecays, Change::kRounded>(master, exp_avg_sq, gradient, whole, count, options);
  }
};

template <bool kDecays>
using AdagradKernels =
    Kernels<AdagradBody<kDecays>, float*, float*, const float*, const AdagradOptions&>;

}  // namespace

void adagrad_step(const AdagradOptions& options, std::span<float> master,
                  std::span<float> exp_avg_sq, std::span<const float> gradient) {
  const std::size_t count = master.size();
  PENSTOCK_CHECK(exp_avg_sq.size() == count && gradient.size() == count, "{}, {} and {} elements",
                 count, exp_avg_sq.size(), gradient.size());
  const auto kernel =
      options.weight_decay > 0 ? AdagradKernels<true>::fastest() : AdagradKernels<false>::fastest();
  kernel(count, master.data(), exp_avg_sq.data(), gradient.data(), options);
}

}  // namespace penstock
