#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "alloc/result.h"
#include "bench/workload/swap/adamw.h"
#include "swap/swap_engine.h"

namespace penstock {

/// The optimizer states of one chunk of a sub-group: three fp32 tensors of one engine, equally
/// long.
struct StateChunk {
  TensorId master{};
  TensorId exp_avg{};
  TensorId exp_avg_sq{};
};

/// Steps an optimizer whose states are swapped, chunk by chunk: read, update, write. The next chunk
/// is asked for before the one at hand is updated, and what was written goes behind, so that drive
/// and CPU work at the same time with the states of two chunks in memory. One thread.
class OptimizerStep {
 public:
  /// The chunk's gradients as fp32, valid until the next call.
  using Gradient = std::function<std::span<const float>(std::size_t chunk)>;
  /// The chunk's new master, before it goes back; may be empty.
  using Updated = std::function<void(std::size_t chunk, const AdamWState&)>;

  OptimizerStep(SwapEngine& engine, const AdamWOptions& options)
      : engine_(engine), adam_(options) {}

  /// `step` counts from 1. Returns when all chunks are updated and handed over; flush() says that
  /// they are written. Errors: of the reads; of writes that failed before. Chunks before the one
  /// that failed are updated, it and those behind are not.
  Result<void> run(std::span<const StateChunk> chunks, std::uint64_t step, const Gradient& gradient,
                   const Updated& updated = {});

 private:
  static constexpr std::size_t kStates = 3;
  using Reads = std::array<Ticket, kStates>;

  Reads begin(const StateChunk& chunk);
  Result<void> finish(const Reads& reads, std::size_t chunk, std::uint64_t step,
                      const Gradient& gradient, const Updated& updated);

  SwapEngine& engine_;
  AdamW adam_;
};

}  // namespace penstock
