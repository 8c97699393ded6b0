#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/deepspeed/plan_warning.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/plan_tensor.h"

namespace penstock {

/// What DeepSpeed without penstock makes of the same file. As read in its release 0.19.8 and, for
/// the texts of the errors, run.
struct StockDeepSpeed {
  /// Its pool for parameters: buffer_count buffers of one size, each padded to 1 KiB x
  /// intra_op_parallelism. Nothing where parameters are not on NVMe.
  std::optional<std::uint64_t> pinned_bytes;
  /// What it pins for the optimizer beside it; 0 where that is not on NVMe.
  std::uint64_t optimizer_pinned_bytes = 0;
  /// The text of the AssertionError that it raises while it builds the model, word for word.
  std::optional<std::string> error;
  /// What fails later, depending on what the script does.
  std::vector<PlanWarning> warnings;
};

/// offload_optimizer.buffer_count below which DeepSpeed's first step dies; 0 where its optimizer is
/// not on NVMe.
std::uint64_t optimizer_buffers_needed(const TrainingSetup& setup);

/// tensors: rank_tensors(setup), which begin with the inventory's.
StockDeepSpeed predict_stock_deepspeed(const TrainingSetup& setup,
                                       const std::vector<PlanTensor>& tensors);

}  // namespace penstock
