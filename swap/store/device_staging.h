#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/memory_source.h"
#include "alloc/result.h"
#include "io/io_queue.h"
#include "swap/device/copy_stream.h"
#include "swap/store/checksum.h"
#include "swap/store/stored_tensor.h"

namespace penstock {

/// Moves stored tensors of any size between drives and the memory of one device through a few
/// chunks that are pinned for both. A chunk is used again as soon as its copy's event has happened
/// or its write is whole; who asks waits for nothing. Tensors are moved in the order of asking, the
/// next one's chunks beside the last ones of the one before. Thread-safe.
///
/// What is read is proved (identity and checksum) when all of it has come: until then, and after an
/// error, the device's memory holds anything.
class DeviceStaging {
 public:
  struct Shape {
    std::uint64_t chunk_bytes = 4 * kMiB;  ///< a multiple of 4 KiB
    std::size_t chunks = 8;
  };
  struct Request {
    const File* file = nullptr;  ///< lives until completion
    StoredTensor stored;         ///< what is written needs no checksum: it is computed on the way
    std::string tensor_name;     ///< for errors
    DeviceSpan memory;           ///< stored.bytes() of it, nobody else's until completion
    StreamId stream{};           ///< what was begun there so far comes before the copies
  };
  /// The content's checksum, or why there is none. On a thread of ours, without a lock; must not
  /// wait for a transfer, must not throw.
  using OnComplete = std::function<void(Result<std::uint64_t>)>;

  /// `queue` outlives this. Errors: no memory, none that the device pins, no stream.
  static Result<std::unique_ptr<DeviceStaging>> open(IoQueue& queue,
                                                     const std::shared_ptr<Device>& device,
                                                     std::shared_ptr<MemorySource> memory,
                                                     const Shape& shape);
  /// Waits for every transfer.
  ~DeviceStaging();
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  /// Errors of both, by `done`: a size that is not the tensor's; errno, path and offset of the
  /// drive; the device's; what came back was not what was written.
  void read(Request request, OnComplete done) {
    begin(IoKind::kRead, std::move(request), std::move(done));
  }
  void write(Request request, OnComplete done) {
    begin(IoKind::kWrite, std::move(request), std::move(done));
  }

 private:
  struct Transfer {
    Transfer(IoKind direction, Request asked, OnComplete on_complete);
    bool is_read() const noexcept { return kind == IoKind::kRead; }
    std::uint64_t content_bytes(std::uint64_t offset, std::uint64_t bytes) const noexcept;

    IoKind kind;
    Request request;
    OnComplete done;
    ChecksumStream checksum;
    std::uint64_t next_offset = 0;  // of the layout: what no chunk has taken yet
    std::size_t users = 0;          // chunks under way, and who looks for the next one
    std::optional<Error> error;     // the first one
    // Of the thread that sees the content in order: the I/O thread reads it, the copies' thread
    // writes it.
    std::uint64_t seen_offset = 0;
    std::uint64_t checksum_seen = 0;
    std::string difference;  // of the identity read
  };
  struct Chunk {
    IoOp op;
    DeviceStaging* staging = nullptr;
    std::span<std::byte> memory;
    std::shared_ptr<Transfer> transfer;  // null: free
    std::uint64_t offset = 0;            // of the layout
    std::uint64_t bytes = 0;             // of the layout, the content's first
    bool has_arrived = false;            // from where it comes, and not seen yet
    std::span<std::byte> content() const;
    DeviceSpan device_side() const;
  };
  using Lock = std::unique_lock<std::mutex>;

  DeviceStaging(IoQueue& queue, const Shape& shape, Memory memory, std::unique_ptr<CopyStream> in,
                std::unique_ptr<CopyStream> out);

  void begin(IoKind kind, Request request, OnComplete done);
  // Gives free chunks to the transfers that want them, and begins what that allows.
  void move_on(Lock& lock);
  Chunk* give_chunk();
  void start(Chunk& chunk);
  void submit(Chunk& chunk);
  void moved(Chunk& chunk);
  void arrived(Chunk& chunk, std::optional<Error> error);
  void see_in_order(Transfer& transfer);
  // What can be seen next; of a transfer that failed, any that waits to be.
  Chunk* next_in_order(const Transfer& transfer, bool& failed);
  void see(Chunk& chunk);
  void send(Chunk& chunk);
  void receive(Chunk& chunk);
  // The chunk is free again. This object may be gone afterwards.
  void give_back(Chunk& chunk, std::optional<Error> error);
  // A transfer is over when nobody uses it any more; then `done` is called, and this object may go.
  void let_go(const std::shared_ptr<Transfer>& transfer, Lock& lock);
  static Result<std::uint64_t> outcome(Transfer& transfer);
  static std::optional<Error> of_device(const Chunk& chunk, std::optional<Error> error);

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
};

}  // namespace penstock
