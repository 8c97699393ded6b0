#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// What Adam is told, with PyTorch's names and defaults.
struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

/// One stretch of a parameter's fp32 master, its two moments and its gradient: equally many
/// elements.
struct AdamWState {
  std::span<float> master;
  std::span<float> exp_avg;
  std::span<float> exp_avg_sq;
  std::span<const float> gradient;
};

/// AdamW with decoupled weight decay in fp32, in the order of operations of DeepSpeed's CPU Adam
/// (csrc/includes/cpu_adam.h), which differs from torch.optim.AdamW's in the last bits:
///
///   m = b1*m + (1-b1)*g
///   v = b2*v + (1-b2)*g*g
///   d = sqrt(v) / sqrt(1 - b2^t) + eps
///   p = p - lr*wd*p
///   p = p - lr/(1 - b1^t) * (m/d)
///
/// Every element by itself, so that any cutting into stretches gives the same bits. Pure.
class AdamW {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {}

  /// `step` counts from 1. The spans are equally long and do not overlap.
  void update(const AdamWState& state, std::uint64_t step) const;

 private:
  AdamWOptions options_;
};

}  // namespace penstock
