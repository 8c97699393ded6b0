#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "alloc/buffer_pool.h"
#include "alloc/memory_source.h"
#include "swap/plan/chunk_shape.h"
#include "swap/transfer/chunk_pump.h"
#include "swap/transfer/tensor_transfer.h"
#include "swap/transfer/transfer_memory.h"

namespace penstock {

/// One read or write of one stored tensor between its drive and host memory: it either moves and
/// proves every byte or ends with one error that names tensor, path and offset.
///
/// Memory that is aligned for the drive is its own chunk, beside a block for the end of the layout.
/// Other memory goes through a few chunks of the pool, copied as they come back.
///
/// Made with all the memory that it needs, so that nothing of it can fail for want of memory once
/// it has started.
class HostTransfer : public TensorTransfer {
 public:
  struct Place {
    IoQueue* queue = nullptr;
    BufferPool* staging = nullptr;           ///< where chunks for unaligned memory come from
    std::shared_ptr<TransferMemory> memory;  ///< of transfers, and of the ends of layouts
    const File* file = nullptr;              ///< lives until the end
    StoredTensor stored;
    std::shared_ptr<const TensorInfo> info;
  };

  /// `source` (stored.bytes() of it) must stay as it is until `done`, which gets the checksum that
  /// lies with it on the drive, or the error. It is called once, on the I/O thread or within
  /// start(), without a lock of ours, and must not throw. Errors: Fault::kExhausted, naming tensor,
  /// bytes and path: no memory for the end of the layout, or for a single chunk; nothing has begun.
  template <class Done>
  static Result<std::shared_ptr<HostTransfer>> of_write(Place place,
                                                        std::span<const std::byte> source,
                                                        IoPriority priority, Done done) {
    // Nothing writes to a source; one type serves both directions.
    const InMemory memory{{const_cast<std::byte*>(source.data()), source.size()}};
    const OnDrive drive{place.file, place.stored, priority};
    auto info = std::move(place.info);
    return make(place, {std::move(info), memory, drive}, std::move(done));
  }
  /// `target` holds anything until `done`, which is called on the I/O thread: start() may be called
  /// with a lock that it takes. Errors: as of_write()'s.
  template <class Done>
  static Result<std::shared_ptr<HostTransfer>> of_read(Place place, std::span<std::byte> target,
                                                       IoPriority priority, Done done) {
    const OnDrive drive{place.file, place.stored, priority};
    auto info = std::move(place.info);
    return make(place, {std::move(info), drive, InMemory{target}}, std::move(done));
  }
  ~HostTransfer() override { release_chunks(); }

  /// Once.
  static void start(const std::shared_ptr<HostTransfer>& transfer) {
    transfer->pump_->move(transfer);
  }
  /// A caller waits for it now. From any thread, while it is alive.
  void promote();

 protected:
  HostTransfer(const Place& place, TransferRequest request)
      : TensorTransfer({.queue = place.queue}, std::move(request)), memory_(place.memory) {}
  void release_chunks() noexcept final;

 private:
  template <class Done>
  static Result<std::shared_ptr<HostTransfer>> make(Place& place, TransferRequest request,
                                                    Done done) {
    const std::shared_ptr<HostTransfer> transfer =
        place.memory->make_object<TransferThen<HostTransfer, Done>>(std::move(done), place,
                                                                    std::move(request));
    PENSTOCK_TRY(transfer->prepare(*place.staging));
    return transfer;
  }
  Result<void> prepare(BufferPool& staging);
  Result<void> prepare_in_place();
  Result<void> prepare_chunks(BufferPool& staging);
  void add_chunk(std::span<std::byte> memory, std::optional<std::uint64_t> lies_at);
  Error no_memory(const Error& cause) const;

  const std::shared_ptr<TransferMemory> memory_;
  Memory trailer_;
  std::array<Buffer, kHostChunks.chunks> buffers_;
  std::array<Chunk, kHostChunks.chunks> chunks_;
  std::size_t chunk_count_ = 0;
  std::optional<ChunkPump> pump_;  // last: it uses the chunks
};

}  // namespace penstock
