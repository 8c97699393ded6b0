#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "alloc/result.h"
#include "io/file.h"
#include "io/io_queue.h"
#include "swap/plan/chunk_shape.h"

namespace penstock {

/// Writes what is given bit by bit in large requests, several under way behind the caller. What
/// follows what was given last joins it; anything else begins at a whole block. Used by one thread.
class StreamWriter {
 public:
  /// Files live until drain(). Errors: no memory.
  static Result<std::unique_ptr<StreamWriter>> make(IoQueue& queue,
                                                    const ChunkShape& shape = kStreamChunks);
  /// Waits for what is under way; what is not there yet is not written.
  ~StreamWriter();
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  /// Memory for the next bytes, which belong at `offset` of `file`: at least one, at most a chunk.
  /// Errors: of an earlier write; then for ever.
  Result<std::span<std::byte>> room(const File& file, std::uint64_t offset);
  /// The first `bytes` of it have been filled.
  void advance(std::uint64_t bytes);
  /// Copies.
  Result<void> write(const File& file, std::uint64_t offset, std::span<const std::byte> bytes);
  /// Everything given so far is written; behind the last byte, zeros up to a whole block. Errors:
  /// as room().
  Result<void> drain();

  /// Padding included.
  std::uint64_t written_bytes() const noexcept;

 private:
  class Writing;
  explicit StreamWriter(std::shared_ptr<Writing> writing);

  std::shared_ptr<Writing> writing_;
};

}  // namespace penstock
