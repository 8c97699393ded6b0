#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/memory_source.h"
#include "alloc/result.h"
#include "io/io_queue.h"
#include "swap/device/copy_stream.h"
#include "swap/store/device_transfer.h"
#include "swap/store/direct_lane.h"

namespace penstock {

/// Moves tensors of any size between the memory of one device and drives, or host memory, through a
/// few chunks that are pinned for ring and device. A chunk is used again as soon as its copy's
/// event has happened or its write is whole; who asks waits for nothing. Tensors are moved in the
/// order of asking, the next one's chunks beside the last ones of the one before. Thread-safe.
///
/// What is read is proved (identity and checksum) when all of it has come: until then, and after an
/// error, the device's memory holds anything.
class DeviceStaging {
 public:
  using Request = DeviceTransfer::Request;
  /// On a thread of ours, without a lock; where the request itself is wrong, at once.
  using OnComplete = DeviceTransfer::OnComplete;

  struct Shape {
    std::uint64_t chunk_bytes = kMiB;  ///< a multiple of 4 KiB, 8 KiB at least
    std::size_t chunks = 16;

    std::uint64_t bytes() const noexcept { return chunk_bytes * chunks; }
  };

  /// `queue` outlives this. `pinned` gives memory that ring and device both know. With `direct`,
  /// what need not be hashed or converted goes past host memory: the chunks carry ends of contents.
  /// Errors: no memory, or none that the device pins; no stream.
  static Result<std::unique_ptr<DeviceStaging>> open(IoQueue& queue,
                                                     const std::shared_ptr<Device>& device,
                                                     MemorySource& pinned, const Shape& shape,
                                                     std::shared_ptr<DirectStorage> direct = {});
  /// Waits for every transfer.
  ~DeviceStaging();
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  /// Where copies to the device (from it) happen: what these wait for, they wait for.
  StreamId stream(DeviceTransfer::Direction direction) const noexcept {
    return (direction == DeviceTransfer::Direction::kToDevice ? in_ : out_)->stream();
  }

  /// Whether this is a thread that moves or tells something here: it must not wait for that.
  bool on_thread() const noexcept {
    return in_->on_thread() || out_->on_thread() || (direct_ && direct_->on_thread());
  }

  /// Errors of both, by `done`: a size or type that is not the tensor's; errno, path and offset of
  /// the drive; the device's; what came back was not what was written.
  void to_device(Request request, OnComplete done) {
    begin(DeviceTransfer::Direction::kToDevice, std::move(request), std::move(done));
  }
  void from_device(Request request, OnComplete done) {
    begin(DeviceTransfer::Direction::kFromDevice, std::move(request), std::move(done));
  }

 private:
  struct Transfer : DeviceTransfer {
    using DeviceTransfer::DeviceTransfer;
    std::uint64_t next_offset = 0;  // of the layout: what no chunk has taken yet
    std::size_t users = 0;          // chunks under way, and who looks for the next one
  };
  struct Chunk {
    IoOp op;
    DeviceStaging* staging = nullptr;
    std::span<std::byte> memory;
    std::shared_ptr<Transfer> transfer;  // null: free
    std::uint64_t offset = 0;            // of the layout
    std::uint64_t bytes = 0;             // of the layout, the content's first
    bool has_arrived = false;            // from where it comes, and not seen yet

    std::uint64_t content_bytes() const { return transfer->content_bytes(offset, bytes); }
    DeviceSpan device_side() const { return transfer->device_part(offset, content_bytes()); }
    std::span<std::byte> copied() const { return memory.first(device_side().bytes); }
  };
  using Lock = std::unique_lock<std::mutex>;

  DeviceStaging(IoQueue& queue, const Shape& shape, Memory memory, std::unique_ptr<CopyStream> in,
                std::unique_ptr<CopyStream> out, std::unique_ptr<DirectLane> direct);

  void begin(DeviceTransfer::Direction direction, Request request, OnComplete done);
  // Both take no chunk, and end in moved_without_chunk.
  void move_directly(const std::shared_ptr<Transfer>& transfer);
  void copy_whole(const std::shared_ptr<Transfer>& transfer);
  // Gives free chunks to the transfers that want them, and begins what that allows.
  void move_on(Lock& lock);
  Chunk* give_chunk();
  void start(Chunk& chunk);

  // To the device: from a drive submit, moved, arrived, see_in_order, send; from memory load.
  // From it: receive, received, then to a drive arrived, see_in_order, submit, moved.
  void submit(Chunk& chunk);
  void moved(Chunk& chunk);
  void arrived(Chunk& chunk, std::optional<Error> error);
  void see_in_order(Transfer& transfer);
  // What can be seen next; of a transfer that failed, any that waits to be.
  Chunk* next_in_order(const Transfer& transfer, bool& failed);
  void load(Chunk& chunk);
  void send(Chunk& chunk);
  void copy_in(Chunk& chunk);
  void receive(Chunk& chunk);
  void received(Chunk& chunk, std::optional<Error> error);

  // The chunk is free again. This object may be gone after either of these.
  void give_back(Chunk& chunk, std::optional<Error> error);
  void moved_without_chunk(const std::shared_ptr<Transfer>& transfer, std::optional<Error> error);
  // A transfer is over when nobody uses it any more; then `done` is called, and this object may go.
  void let_go(const std::shared_ptr<Transfer>& transfer, Lock& lock);

  IoQueue& queue_;
  const std::uint64_t chunk_bytes_;
  Memory memory_;
  std::mutex mutex_;
  std::condition_variable over_;
  std::vector<Chunk> chunks_;  // never resized: operations stay where they are
  std::deque<std::shared_ptr<Transfer>> transfers_;  // in the order of asking
  std::size_t telling_ = 0;                          // that are over, but not told
  std::unique_ptr<CopyStream> in_;                   // last: end first, and tell what is left
  std::unique_ptr<CopyStream> out_;
  std::unique_ptr<DirectLane> direct_;  // null: everything goes through chunks
};

}  // namespace penstock
