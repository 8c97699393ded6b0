#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "alloc/memory_source.h"
#include "alloc/result.h"
#include "alloc/waiting.h"
#include "io/file.h"
#include "io/io_queue.h"

namespace penstock {

/// A few equal chunks of registered memory, each with one transfer at a time: what streams go
/// through. Used by one thread, its owner's.
class TransferRing {
 public:
  struct Shape {
    std::uint64_t chunk_bytes = 1024 * 1024;  ///< a multiple of 4 KiB
    std::size_t chunks = 16;
  };
  /// Errors: no memory.
  static Result<std::unique_ptr<TransferRing>> make(IoQueue& queue, const Shape& shape);
  /// Waits for what is under way.
  ~TransferRing();
  TransferRing(const TransferRing&) = delete;
  TransferRing& operator=(const TransferRing&) = delete;

  std::size_t count() const noexcept { return slots_.size(); }
  std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// Aligned to 4 KiB.
  std::span<std::byte> chunk(std::size_t index) const noexcept;

  /// Moves `bytes` between the front of the chunk, whose last transfer is over, and [offset, …) of
  /// `file`, which lives until it is over.
  void begin(std::size_t index, IoKind kind, const File& file, std::uint64_t offset,
             std::uint64_t bytes);
  /// Waits until the chunk's transfer, if there was one, is over. Errors: errno, path and offset;
  /// told once.
  Result<void> wait(std::size_t index);

 private:
  struct Slot {
    IoOp op;
    TransferRing* ring = nullptr;
    bool under_way = false;  // guarded by mutex_
    bool told = true;
  };

  TransferRing(IoQueue& queue, std::uint64_t chunk_bytes, std::size_t chunks, Memory memory);
  void finished(Slot& slot) noexcept;

  IoQueue& queue_;
  Waiting waiting_;
  std::uint64_t chunk_bytes_;
  Memory memory_;
  bool registered_ = false;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::vector<Slot> slots_;  // never resized: operations stay where they are
};

}  // namespace penstock
