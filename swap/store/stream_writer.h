#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "alloc/result.h"
#include "swap/store/transfer_ring.h"

namespace penstock {

/// Writes what is given bit by bit in large requests, several under way behind whoever makes the
/// bytes. What follows what was given last joins it; anything else begins at a whole block. Used by
/// one thread.
class StreamWriter {
 public:
  /// Files live until drain(). Errors: no memory.
  static Result<std::unique_ptr<StreamWriter>> make(IoQueue& queue,
                                                    const TransferRing::Shape& shape = {});

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
  std::uint64_t written_bytes() const noexcept { return written_bytes_; }

 private:
  explicit StreamWriter(std::unique_ptr<TransferRing> ring) : ring_(std::move(ring)) {}
  void submit();
  Result<void> wait(std::size_t slot);

  const File* file_ = nullptr;  // of the chunk being filled; null: none is
  std::uint64_t offset_ = 0;    // there, of the chunk's first byte
  std::uint64_t filled_ = 0;
  std::size_t slot_ = 0;
  std::uint64_t written_bytes_ = 0;
  std::optional<Error> failure_;
  std::unique_ptr<TransferRing> ring_;
};

}  // namespace penstock
