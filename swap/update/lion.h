#pragma once

#include <span>

namespace penstock {

/// In single precision, as the kernels take them.
struct LionOptions {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float weight_decay = 0;
};

/// One step of Lion over a stretch of a parameter's fp32 master and its moment:
///
///   u = b1*m + (1-b1)*g
///   p = (1 - lr*wd)*p - lr*sign(u)    (u = 0 counts by its sign bit; lr < 0 as |lr| in the
///                                      elements behind whole vectors, as the op does)
///   m = b2*m + (1-b2)*g
///
/// Operations, their order and which of them are fused are those of DeepSpeed's CPU Lion
/// (csrc/includes/cpu_lion.h, 0.19.8; older ones step by other amounts), so that results are equal
/// to the last bit. The spans are equally long and do not overlap. A tensor may be cut into
/// stretches at multiples of kCutElements. Thread-safe.
void lion_step(const LionOptions& options, std::span<float> master, std::span<float> exp_avg,
               std::span<const float> gradient);

}  // namespace penstock
