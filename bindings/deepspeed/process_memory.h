#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bindings/deepspeed/leased_memory.h"
#include "bindings/deepspeed/memory_table.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/saturating.h"

namespace penstock {

/// Gradients that a single rank collects before they go to DeepSpeed's flat buffer, at most, where
/// penstock swaps: it has nothing to reduce, so that a larger bucket is only memory.
inline constexpr std::uint64_t kOneRankBucketElements = 1U << 24U;

/// Host memory of one training process at its peak, bytes.
struct ProcessMemory {
  std::uint64_t planned_bytes = 0;  ///< rows of the memory table in RAM and pinned memory
  std::uint64_t behind_bytes = 0;   ///< of them, contents that wait for a slow drive, at most
  std::uint64_t runtime_bytes = 0;  ///< Python, torch, transformers and DeepSpeed without a model
  /// Without an accelerator: what is on the device otherwise, and the bucket of gradients.
  std::uint64_t device_bytes = 0;
  /// While the model is built: the checkpoint, which is mapped, the largest tensor and what stays.
  std::uint64_t loading_bytes = 0;

  /// In training, at most. Not what loading takes: a mapped checkpoint gives way.
  std::uint64_t training_bytes() const noexcept { return in_training(planned_bytes); }
  /// What is expected, with drives that keep up.
  std::uint64_t peak_bytes() const noexcept {
    return std::max(in_training(planned_bytes - behind_bytes),
                    add_saturating(runtime_bytes, loading_bytes));
  }

 private:
  std::uint64_t in_training(std::uint64_t planned) const noexcept {
    return add_saturating(runtime_bytes, add_saturating(planned, device_bytes));
  }
};

/// `on_cpu`: training runs on the CPU accelerator, so that the device's memory is the host's. Not
/// known and left out: activations that were not given, what a script makes besides. Pure.
ProcessMemory expect_process_memory(const TrainingSetup& setup, const std::vector<MemoryRow>& table,
                                    const LeasedMemory& leased, bool on_cpu);

}  // namespace penstock
