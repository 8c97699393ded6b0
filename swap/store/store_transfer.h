#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "alloc/memory_source.h"
#include "io/io_op.h"
#include "io/io_queue.h"
#include "swap/plan/placement.h"
#include "swap/store/swap_store.h"

namespace penstock {

/// One read or write of one stored tensor: body, tail and identity as one operation that either
/// moves and proves every byte or ends with one error that names tensor, path and offset.
///
/// Memory that is aligned for the drive is read and written in place. Other memory goes through a
/// few staging chunks, copied on the I/O thread as they come back.
///
/// Made with all the memory that it needs, so that nothing of it can fail for want of memory once
/// it has started. Must live until `on_complete` (on the I/O thread) has run, which may let go of
/// it.
class StoreTransfer {
 public:
  /// What unaligned memory is copied through; plans have slots for one transfer.
  static constexpr std::uint64_t kChunkBytes = kStagingChunkBytes;
  static constexpr std::uint32_t kChunksMax = kStagingChunks;
  /// What is asked of Place::trailers, always.
  static constexpr std::uint64_t kTrailerBytes = 2 * kBlockBytes;

  /// Nothing: all is well. Must not throw.
  using OnComplete = std::function<void(std::optional<Error>)>;

  struct Place {
    IoQueue* queue = nullptr;
    BufferPool* staging = nullptr;     ///< where chunks for unaligned memory come from
    MemorySource* trailers = nullptr;  ///< where the blocks at the end of a content come from
    const File* file = nullptr;
    StoredTensor stored;
    std::string tensor_name;  ///< for errors
  };

  StoreTransfer(const StoreTransfer&) = delete;
  StoreTransfer& operator=(const StoreTransfer&) = delete;

  /// `source` (stored.bytes() of it) must stay as it is until completion. `stored.identity` already
  /// carries the checksum of it. Errors: Fault::kExhausted, naming tensor, bytes and path: no
  /// memory for the last blocks, or for a single chunk.
  static Result<std::shared_ptr<StoreTransfer>> of_write(Place place,
                                                         std::span<const std::byte> source,
                                                         IoPriority priority);
  /// `target` holds anything from start() to completion. Errors: as of_write()'s.
  static Result<std::shared_ptr<StoreTransfer>> of_read(Place place, std::span<std::byte> target,
                                                        IoPriority priority);
  /// Once.
  void start(OnComplete on_complete);
  /// Somebody waits for it now. From any thread, while it is alive.
  void promote();

 private:
  struct Chunk {
    IoOp op;
    Buffer buffer;
    std::uint64_t body_offset = 0;
  };

  StoreTransfer(Place place, IoKind kind, std::byte* memory)
      : place_(std::move(place)), kind_(kind), memory_(memory) {}
  static Result<std::shared_ptr<StoreTransfer>> make(Place place, IoKind kind, std::byte* memory,
                                                     IoPriority priority);

  Result<void> prepare_body(IoPriority priority);
  Result<void> prepare_chunks(IoPriority priority);
  Result<void> prepare_trailer(IoPriority priority);
  Error no_memory(const Error& cause) const;
  void prepare_op(IoOp& op, IoPriority priority, std::byte* data, std::uint64_t offset,
                  std::uint64_t bytes);
  bool load_chunk(Chunk& chunk);
  void finished(IoOp& op);
  void complete();
  std::optional<Error> verify();

  Place place_;
  const IoKind kind_;
  std::byte* const memory_;
  OnComplete on_complete_;
  IoOp body_;
  IoOp trailer_;
  Memory trailer_block_;
  std::array<Chunk, kChunksMax> chunks_;
  std::array<IoOp*, kChunksMax + 1> ops_{};  // what is submitted first
  std::uint64_t next_chunk_offset_ = 0;      // first body byte that no chunk has taken yet
  std::size_t pending_ops_ = 0;              // of ops_; the I/O thread's once started
  std::optional<Error> error_;               // the first one
};

}  // namespace penstock
