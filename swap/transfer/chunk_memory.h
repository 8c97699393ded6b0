#pragma once

#include <memory>
#include <span>
#include <vector>

#include "alloc/memory_source.h"
#include "alloc/result.h"
#include "io/io_queue.h"
#include "swap/plan/chunk_shape.h"
#include "swap/transfer/chunk.h"

namespace penstock {

/// The chunks of one stream, with memory of their own that the queue's ring knows where that is
/// allowed. Nothing is under way in them when they go.
class ChunkMemory {
 public:
  /// `queue` outlives it. Errors: no memory.
  static Result<std::unique_ptr<ChunkMemory>> make(IoQueue& queue, const ChunkShape& shape);
  ~ChunkMemory();
  ChunkMemory(const ChunkMemory&) = delete;
  ChunkMemory& operator=(const ChunkMemory&) = delete;

  std::span<Chunk> chunks() noexcept { return chunks_; }

 private:
  ChunkMemory(IoQueue& queue, const ChunkShape& shape, Memory memory);

  IoQueue& queue_;
  Memory memory_;
  std::vector<Chunk> chunks_;  // never resized: operations stay where they are
  bool registered_ = false;
};

}  // namespace penstock
