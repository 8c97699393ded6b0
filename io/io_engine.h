#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "io/io_op.h"
#include "io/io_stats.h"

namespace penstock {

struct IoEngineOptions {
  std::uint32_t block_bytes = 1024 * 1024;  ///< largest request given to the kernel; multiple of 4 KiB
  std::uint32_t depth = 32;                 ///< requests in flight at most, 1..1024
};

/// Moves bytes between memory and files. The base class owns what every backend must get right:
/// order by priority, splitting, continuation of short transfers, EINTR/EAGAIN, and that no request
/// finishes without its result being read. A backend hands one piece to the kernel and brings results.
///
/// Order: demand first; then reads ahead and writes behind take turns, piece by piece, so that neither
/// starves the other and both directions of the drive stay busy.
///
/// One thread at a time (the event loop's). Completion callbacks run inside poll(), never inside submit().
class IoEngine {
 public:
  virtual ~IoEngine();
  IoEngine(const IoEngine&) = delete;
  IoEngine& operator=(const IoEngine&) = delete;

  /// Queues `op` (state kIdle or kDone). 0 bytes complete at the next poll().
  void submit(IoOp& op);
  /// Moves every queued operation whose `urgent` flag is set to the demand queue.
  void promote_urgent();
  /// Ends `op` with ECANCELED: at once where nothing of it is in flight, else after what is.
  void cancel(IoOp& op);

  /// Reads all results that are there, continues or finishes their operations, issues more, then calls
  /// the callbacks of what finished. Never blocks. Returns how many operations finished.
  std::size_t poll();
  /// Blocks until at least one result is there (or nothing is in flight). For tests and draining.
  void wait();

  /// No operation is queued or in flight.
  bool idle() const noexcept { return queued_ops_ == 0 && in_flight_ == 0 && finished_ == nullptr; }
  /// Readable whenever poll() has something to do with results.
  virtual int completion_fd() const noexcept = 0;
  virtual std::string_view name() const noexcept = 0;

  /// Makes I/O from and to this memory cheaper, where the backend can (io_uring: registered buffers).
  /// Errors: why not (memlock); everything works without. Unregister only when nothing is in flight there.
  virtual Result<void> register_memory(std::span<std::byte> memory);
  virtual void unregister_memory(std::span<std::byte> memory);

  const IoStats& stats() const noexcept { return stats_; }
  const IoEngineOptions& options() const noexcept { return options_; }

 protected:
  /// One request to the kernel: at most block_bytes of one operation. Lives in a fixed array.
  struct Piece {
    IoOp* op = nullptr;
    std::byte* data = nullptr;
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t index = 0;  ///< place in the array, the backend's tag
  };

  explicit IoEngine(const IoEngineOptions& options);

  /// Gives one piece to the kernel. False: no room now, try again after the next results.
  virtual bool issue(Piece& piece) = 0;
  /// After a batch of issue(): tells the kernel.
  virtual void kick() = 0;
  /// Calls finish() for every result that is there; blocks for the first one if `block`.
  virtual void collect(bool block) = 0;

  /// The one way in which a request ends: `result` is bytes moved or -errno.
  void finish(std::uint32_t piece_index, std::int64_t result);

  std::uint32_t in_flight() const noexcept { return in_flight_; }
  /// Ends everything that is in flight by collecting; for destructors of backends.
  void drain() noexcept;

 private:
  struct Queue {
    IoOp* first = nullptr;
    IoOp* last = nullptr;
  };
  void issue_queued();
  IoOp* next_op();
  bool issue_piece(IoOp& op);
  void push(Queue& queue, IoOp& op);
  void unlink(Queue& queue, IoOp& op);
  void complete(IoOp& op);

  IoEngineOptions options_;
  IoStats stats_;
  std::array<Queue, kIoPriorities> queues_{};
  bool behind_turn_ = false;       // whose turn it is among kAhead and kBehind
  std::uint64_t queued_ops_ = 0;   // operations with bytes not yet issued
  std::uint32_t in_flight_ = 0;    // pieces
  IoOp* finished_ = nullptr;       // completed, callback still to be called
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> free_pieces_;
  std::vector<std::uint32_t> again_;  // pieces to be issued again (short, EINTR, EAGAIN, no room)
};

}  // namespace penstock
