#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "io/io_op.h"
#include "swap/device/copy_stream.h"

namespace penstock {

class ChunkPump;
class Transfer;

/// Memory that carries one part of a transfer at a time, and the operations that fill and empty it.
/// Stays where it is. What the pump sets is guarded by its lock; the rest belongs to the step that
/// the part is in.
struct Chunk {
  // Of what made the chunk.
  std::span<std::byte> memory;
  /// The memory is an end of the transfer itself: it carries the part at this offset and no other.
  std::optional<std::uint64_t> lies_at;

  // The pump's.
  ChunkPump* pump = nullptr;
  std::shared_ptr<Transfer> transfer;  ///< null: the chunk is free
  std::uint64_t offset = 0;            ///< of its part, in the transfer's layout
  std::uint64_t bytes = 0;             ///< of its part, in the transfer's layout
  bool has_arrived = false;            ///< and has not passed yet

  IoOp io;      ///< where a drive is an end
  CopyOp copy;  ///< where a device is

  std::span<std::byte> part() const noexcept { return memory.first(bytes); }
  /// `io` is to move so many bytes between the front of the chunk and [file_offset, …) of `file`;
  /// its context is the chunk.
  void prepare_io(IoKind kind, IoPriority priority, const File& file, std::uint64_t file_offset,
                  std::uint64_t io_bytes) noexcept {
    io.kind = kind;
    io.priority = priority;
    io.file = &file;
    io.data = memory.data();
    io.offset = file_offset;
    io.bytes = io_bytes;
    io.context = this;
  }
};

}  // namespace penstock
