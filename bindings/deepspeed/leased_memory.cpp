#include "bindings/deepspeed/leased_memory.h"

#include <algorithm>

namespace penstock {
namespace {

std::uint64_t largest_weights_bytes(const TrainingSetup& setup) {
  std::uint64_t largest = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    largest = std::max(largest, setup.trains(info) ? setup.rank_bytes(info) : 0);
  }
  return largest;
}

// A master and what a step uses beside it.
std::uint64_t largest_chunk_bytes(const TrainingSetup& setup,
                                  std::span<const MomentChunks> chunks) {
  const std::vector<OptimizerState> states = setup.optimizer_states();
  const auto stepped = static_cast<std::uint64_t>(
      std::ranges::count_if(states, [](const OptimizerState& state) { return state.is_stepped; }));
  std::uint64_t largest = 0;
  for (const MomentChunks& group : chunks) {
    for (const std::vector<StateSegment>& chunk : group) {
      largest = std::max(largest, elements_of(chunk) * 4 + stepped * state_bytes(chunk));
    }
  }
  return largest;
}

// What the optimizer holds while it steps its largest sub-group, or a chunk of it: then besides the
// new weights of one parameter, until they are whole.
std::uint64_t step_bytes(const TrainingSetup& setup, std::span<const MomentChunks> chunks) {
  if (!setup.swaps_optimizer()) {
    return 0;
  }
  if (setup.steps_in_chunks()) {
    return largest_chunk_bytes(setup, chunks) +
           (setup.param_device() == OffloadDevice::kNvme ? largest_weights_bytes(setup) : 0);
  }
  const std::uint64_t largest = setup.largest_sub_group();
  return largest * (2 * setup.config.deepspeed.master_element_bytes +
                    dtype_bytes(setup.config.deepspeed.held_dtype())) +
         setup.moment_bytes(largest);
}

}  // namespace

std::uint64_t most_held_bytes(const TrainingSetup& setup, std::span<const MomentChunks> chunks,
                              const ParameterFetches& fetches) {
  return std::max(fetches.held_bytes_max, step_bytes(setup, chunks));
}

LeasedMemory expect_leased_memory(const std::vector<PlanTensor>& tensors,
                                  const Placement& placement, std::uint64_t held_bytes) {
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_written =
        is_on_drive(placement.tensors[i].place) && tensors[i].writes_per_step != 0;
    written += is_written ? tensors[i].bytes : 0;
  }
  return {held_bytes, std::min(kWriteBackSlackBytes, written)};
}

}  // namespace penstock
