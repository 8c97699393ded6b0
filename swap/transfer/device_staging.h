#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "alloc/memory_source.h"
#include "alloc/result.h"
#include "io/io_queue.h"
#include "swap/device/copy_stream.h"
#include "swap/plan/chunk_shape.h"
#include "swap/transfer/chunk_pump.h"
#include "swap/transfer/direct_lane.h"
#include "swap/transfer/tensor_transfer.h"
#include "swap/transfer/transfer_memory.h"

namespace penstock {

/// Moves tensors of any size between the memory of one device and drives, or host memory, through a
/// few chunks that are pinned for ring and device. A chunk is used again as soon as its copy's
/// event has happened or its write is whole; callers wait for nothing. Tensors are moved in the
/// order of asking, the next one's chunks beside the last ones of the one before. Thread-safe.
class DeviceStaging {
 public:
  /// `queue` outlives this. `pinned` gives memory that ring and device both know. With `direct`,
  /// what need not be hashed or converted goes past host memory: the chunks carry ends of contents.
  /// Errors: no memory, or none that the device pins; no stream.
  static Result<std::unique_ptr<DeviceStaging>> open(IoQueue& queue,
                                                     const std::shared_ptr<Device>& device,
                                                     MemorySource& pinned, const ChunkShape& shape,
                                                     std::shared_ptr<DirectStorage> direct = {});
  /// Waits for every transfer.
  ~DeviceStaging() = default;
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  /// Where copies to the device (from it) happen: what these wait for, they wait for.
  StreamId stream(DeviceDirection direction) const noexcept {
    return (direction == DeviceDirection::kToDevice ? in_ : out_)->stream();
  }

  /// Whether this is a thread that moves or ends something here: it must not wait for that.
  bool on_thread() const noexcept {
    return in_->on_thread() || out_->on_thread() || (direct_ && direct_->on_thread());
  }

  /// Moves what `request` says, one of whose ends is on this device. `done` gets the checksum of
  /// what a drive has (0 where none is an end), or the first error: a size or type that is not the
  /// tensor's; errno, path and offset of the drive; the device's; what came back was not what was
  /// written. It is called once, on any thread, without a lock, where the request itself is wrong
  /// at once; it must not wait for a transfer, and must not throw. Throws std::bad_alloc: nothing
  /// has begun.
  template <class Done>
  void move(TransferRequest request, Done done) {
    const TensorTransfer::Ways ways{&queue_, in_.get(), out_.get()};
    begin(objects_->make_object<TransferThen<Moved, Done>>(std::move(done), ways,
                                                           std::move(request)));
  }

 private:
  /// With what it needs where it goes without a chunk.
  class Moved : public TensorTransfer {
   public:
    using TensorTransfer::TensorTransfer;
    /// Ends at once, before anything has begun.
    void refuse(Error error) noexcept { ended(std::move(error)); }

    CopyOp copy;
    DirectOp direct;
    DeviceStaging* staging = nullptr;
    std::shared_ptr<Moved> self;  // while one of the two is under way
  };

  DeviceStaging(IoQueue& queue, const ChunkShape& shape, Memory memory,
                std::unique_ptr<CopyStream> in, std::unique_ptr<CopyStream> out,
                std::unique_ptr<DirectLane> direct);

  void begin(std::shared_ptr<Moved> transfer);
  // Both take no chunk, and end in moved_without_chunk.
  void copy_whole(std::shared_ptr<Moved> transfer);
  void move_directly(const std::shared_ptr<Moved>& transfer);
  static void begin_directly(CopyOp& marked) noexcept;
  static void moved_without_chunk(Moved& transfer, std::optional<Error> error) noexcept;

  IoQueue& queue_;
  const std::shared_ptr<TransferMemory> objects_ = TransferMemory::make();
  Memory memory_;
  std::vector<Chunk> chunks_;  // never resized: operations stay where they are
  // In this order: what is under way ends on the lanes' threads, which end after it.
  std::unique_ptr<CopyStream> in_;
  std::unique_ptr<CopyStream> out_;
  std::unique_ptr<DirectLane> direct_;  // null: everything goes through chunks
  std::optional<ChunkPump> pump_;       // last: it waits for every transfer
};

}  // namespace penstock
