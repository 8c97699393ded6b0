#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "alloc/result.h"
#include "swap/swap_engine.h"

namespace penstock {

/// So many consecutive elements of an optimizer's states as one tensor of an engine: the fp32
/// masters, then each moment of the same elements. One read and one write a chunk.
struct StateChunk {
  TensorId tensor{};
  std::uint64_t elements = 0;
};

/// Steps an optimizer whose states are swapped, chunk by chunk: read, update, write. Chunks behind
/// the one at hand are asked for before it is updated, and what was updated is written behind, so
/// that drive and CPU work at the same time and a few chunks are in memory, however many there are.
/// One thread.
class StreamedStep {
 public:
  /// `states` is the chunk's memory, masters first; its number is its place in the step.
  using Update = std::function<Result<void>(std::size_t chunk, std::span<float> states)>;

  explicit StreamedStep(SwapEngine& engine) : engine_(engine) {}

  /// Returns when all chunks are updated and handed over; flush() says that they are written.
  /// Errors: of the reads; of `update`; of writes that failed before. Each chunk has either content
  /// whole. Where a read or `update` fails, chunks before it are updated, it and those behind are
  /// not; a chunk whose write failed has its old content.
  Result<void> run(std::span<const StateChunk> chunks, const Update& update);

 private:
  static constexpr std::size_t kReadsAhead = 2;

  Result<void> finish(const Ticket& read, std::size_t chunk, const Update& update);

  SwapEngine& engine_;
};

}  // namespace penstock
