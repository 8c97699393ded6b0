#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "swap/update/adam_kernel.h"

namespace penstock {

/// PyTorch's names; in single precision, as the kernels take them.
struct AdamOptions {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 1e-2F;
  bool decoupled_decay = true;  ///< AdamW; else the decay is part of the gradient
  bool bias_correction = true;
};

/// One stretch of a parameter's fp32 master, its two moments and its gradient: equally many
/// elements.
struct AdamState {
  std::span<float> master;
  std::span<float> exp_avg;
  std::span<float> exp_avg_sq;
  std::span<const float> gradient;
};

/// One step of Adam or AdamW with its factors, for any number of stretches:
///
///   g = g + wd*p                      (Adam with weight decay)
///   m = b1*m + (1-b1)*g
///   v = b2*v + (1-b2)*(g*g)
///   d = sqrt(v) * (1/sqrt(1 - b2^t)) + eps
///   p = p - (lr*wd)*p                 (AdamW)
///   p = p - (lr/(1 - b1^t)) * (m/d)
///
/// Operations, their order and which of them are fused are those of DeepSpeed's CPU Adam
/// (csrc/includes/cpu_adam.h, 0.19.8), so that results are equal to the last bit; torch's own Adam
/// differs from both in the last bits. Every element by itself: any cutting into stretches gives
/// the same, as long as it is at multiples of kCutElements: what remains at the end of a tensor
/// behind the last whole vector (8 elements with AVX2, 16 with AVX-512), the op computes by scalar
/// code that its compiler has fused otherwise, and so does this. Pure; the instructions are chosen
/// at run time.
class AdamStep {
 public:
  /// The spans are equally long and do not overlap. Thread-safe.
  void update(const AdamState& state) const;

  /// Counts from 1.
  std::uint64_t number() const noexcept { return number_; }

 private:
  friend class Adam;
  AdamStep(std::uint64_t number, const AdamFactors& factors, AdamDecay decay)
      : number_(number), factors_(factors), decay_(decay) {}

  std::uint64_t number_;
  AdamFactors factors_;
  AdamDecay decay_;
};

/// An optimizer's count of steps: the powers of its betas are running float products, and computed
/// anew where the count jumps or a beta changes. Not thread-safe.
class Adam {
 public:
  /// `step` counts from 1; the same one may be asked for again. 0: the count begins anew, and there
  /// is nothing to update.
  AdamStep step(std::uint64_t step, const AdamOptions& options);

 private:
  void advance(std::uint64_t step, float beta1, float beta2);

  std::uint64_t step_ = 0;
  float beta1_ = -1;
  float beta2_ = -1;
  float beta1_power_ = 1;
  float beta2_power_ = 1;
};

}  // namespace penstock
