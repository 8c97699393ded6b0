#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "io/io_op.h"
#include "io/io_queue.h"
#include "swap/store/swap_store.h"

namespace penstock {

/// One read or write of one stored tensor: body, tail and identity as one operation that either
/// moves and proves every byte or ends with one error that names tensor, path and offset.
///
/// Memory that is aligned for the drive is read and written in place. Other memory goes through a
/// few staging chunks, copied on the I/O thread as they come back.
///
/// Owned by whoever starts it; must stay where it is until `on_complete` (on the I/O thread) has
/// run, which may destroy it. Started once.
class StoreTransfer {
 public:
  /// What unaligned memory is copied through; the pool should have slots for one transfer at least.
  static constexpr std::uint64_t kChunkBytes = kMiB;
  static constexpr std::uint32_t kChunksMax = 4;

  /// Nothing: all is well. Must not throw.
  using OnComplete = std::function<void(std::optional<Error>)>;

  struct Place {
    IoQueue* queue = nullptr;
    BufferPool* staging = nullptr;  ///< where chunks for unaligned memory come from
    const File* file = nullptr;
    StoredTensor stored;
    std::string tensor_name;  ///< for errors
  };

  explicit StoreTransfer(Place place);
  StoreTransfer(const StoreTransfer&) = delete;
  StoreTransfer& operator=(const StoreTransfer&) = delete;

  /// `source` (stored.bytes() of it) must stay as it is until completion. `stored.identity` already
  /// carries the checksum of it.
  void start_write(std::span<const std::byte> source, IoPriority priority, OnComplete on_complete);
  /// Nobody may look at `target` before completion.
  void start_read(std::span<std::byte> target, IoPriority priority, OnComplete on_complete);
  /// Somebody waits for it now. From any thread, while it is alive.
  void promote();

 private:
  struct Chunk {
    IoOp op;
    Buffer buffer;
    std::uint64_t body_offset = 0;
  };
  struct FreeAligned {
    void operator()(std::byte* block) const noexcept;
  };

  void start(IoKind kind, std::byte* memory, IoPriority priority, OnComplete on_complete);
  std::size_t prepare_body(IoPriority priority, std::span<IoOp*> ops);
  std::size_t prepare_chunks(IoPriority priority, std::span<IoOp*> ops);
  void prepare_trailer(IoPriority priority);
  void prepare_op(IoOp& op, IoPriority priority, std::byte* data, std::uint64_t offset,
                  std::uint64_t bytes);
  bool load_chunk(Chunk& chunk);
  void finished(IoOp& op);
  void complete();
  std::optional<Error> verify();

  Place place_;
  IoKind kind_ = IoKind::kRead;
  std::byte* memory_ = nullptr;
  OnComplete on_complete_;
  IoOp body_;
  IoOp trailer_;
  std::unique_ptr<std::byte, FreeAligned> trailer_block_;
  std::array<Chunk, kChunksMax> chunks_;
  std::uint64_t next_chunk_offset_ = 0;  // first body byte that no chunk has taken yet
  std::size_t pending_ops_ = 0;          // the I/O thread's once started
  std::optional<Error> error_;           // the first one
};

}  // namespace penstock
