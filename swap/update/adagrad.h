#pragma once

#include <span>

namespace penstock {

/// In single precision, as the kernels take them.
struct AdagradOptions {
  float learning_rate = 1e-2F;
  float epsilon = 1e-10F;
  float weight_decay = 0;
};

/// One step of Adagrad over a stretch of a parameter's fp32 master and its sum of squares:
///
///   g = g + wd*p
///   v = v + g*g
///   p = p - lr*(g/(sqrt(v) + eps))
///
/// Operations, their order and which of them are fused are those of DeepSpeed's CPU Adagrad
/// (csrc/includes/cpu_adagrad.h, 0.19.8; older ones divide the gradient without its decay), so that
/// results are equal to the last bit. The spans are equally long and do not overlap. A tensor may
/// be cut into stretches at multiples of kCutElements. Thread-safe.
void adagrad_step(const AdagradOptions& options, std::span<float> master,
                  std::span<float> exp_avg_sq, std::span<const float> gradient);

}  // namespace penstock
