#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "io/io_op.h"
#include "io/io_stats.h"

namespace penstock {

struct IoEngineOptions {
  /// Largest request to the kernel, a multiple of 4 KiB. A read of 4 MiB that is waited for takes
  /// 0.95 ms and 7 ms of CPU a GB in one request, 1.07 ms and 25 ms in four (docs/BENCHMARKS.md).
  std::uint32_t block_bytes = 4 * 1024 * 1024;
  std::uint32_t depth = 32;  ///< requests in flight at most, 1..1024
};
/// Errors: Fault::kInvalidArgument for values outside those ranges (block_bytes: 4 KiB..1 GiB).
Result<void> check_options(const IoEngineOptions& options);

/// Moves bytes between memory and files. The base class owns what every backend must get right:
/// order by priority, splitting, continuation of short transfers, EINTR/EAGAIN, and that no request
/// finishes without its result being read. A backend hands one piece to the kernel and brings
/// results.
///
/// Order: demand first; then reads ahead and writes behind take turns, piece by piece, so that
/// neither starves the other and both directions of the drive stay busy. These two wait while
/// 32 MiB are in flight, so that demand never waits for more.
///
/// One thread at a time (the event loop's). Completion callbacks run inside poll(), never inside
/// submit().
class IoEngine {
 public:
  virtual ~IoEngine();
  IoEngine(const IoEngine&) = delete;
  IoEngine& operator=(const IoEngine&) = delete;

  /// Queues `op` (state kIdle or kDone); poll() issues it. 0 bytes complete at the next poll().
  void submit(IoOp& op);
  /// Moves every queued operation whose `urgent` flag is set to the demand queue.
  void promote_urgent();
  /// Ends `op` with ECANCELED: at once where nothing of it is in flight, else after what is.
  void cancel(IoOp& op);
  /// Does that to every operation whose `cancelled` flag is set.
  void cancel_flagged();
  /// Ends with ETIMEDOUT, as cancel() does, every operation whose deadline is `now` or was before.
  /// Returns the earliest deadline of the others; kNoDeadline if none has one.
  IoOp::TimePoint expire(IoOp::TimePoint now);

  /// Reads all results that are there, continues or finishes their operations, issues more, then
  /// calls the callbacks of what finished and issues what they submitted. Never blocks. Returns how
  /// many operations finished.
  std::size_t poll();
  /// The two halves of poll(), for who wants to see stats() after the results and before the
  /// callbacks.
  void advance();
  std::size_t deliver();
  /// Blocks until at least one result is there, and reads it; false if nothing is in flight.
  bool wait();

  /// No operation is queued, in flight or waiting for its callback.
  bool idle() const noexcept { return unfinished_ops_ == 0 && finished_.first == nullptr; }
  /// Readable whenever poll() has something to do with results.
  virtual int completion_fd() const noexcept = 0;
  virtual std::string_view name() const noexcept = 0;
  /// What the kernel granted, by name; for people.
  virtual std::vector<std::string> features() const { return {}; }

  /// Makes I/O from and to this memory cheaper, where the backend can (io_uring: registered
  /// buffers); nothing to do for a backend that cannot. Errors: why not (memlock); everything works
  /// without. Unregister, with the very span, only when nothing is in flight there.
  virtual Result<void> register_memory(std::span<std::byte> memory);
  virtual void unregister_memory(std::span<std::byte> memory);

  IoStats stats() const noexcept;
  /// What time it is where the drive is: the machine's, unless the drive is simulated. From any
  /// thread.
  virtual IoOp::TimePoint now() const noexcept { return std::chrono::steady_clock::now(); }
  const IoEngineOptions& options() const noexcept { return options_; }

 protected:
  /// What to wait before trying again to submit when the kernel has no memory for a request.
  static constexpr std::chrono::milliseconds kSubmitPause{1};

  /// One request to the kernel: at most block_bytes of one operation. Lives in a fixed array.
  struct Piece {
    IoOp* op = nullptr;
    std::byte* data = nullptr;
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t index = 0;  ///< place in the array, the backend's tag
    bool stalled = false;     ///< its last transfer was too short to move on by an aligned step
  };

  /// `options` have passed check_options().
  explicit IoEngine(const IoEngineOptions& options);

  /// Gives one piece to the kernel. False: no room now, try again after the next results. A backend
  /// that says so with nothing in flight makes completion_fd() readable itself.
  virtual bool issue(Piece& piece) = 0;
  /// Most bytes that one request from or to `data` should carry; block_bytes holds beside it.
  virtual std::uint64_t request_bytes_max(const std::byte* /*data*/) const noexcept {
    return options_.block_bytes;
  }
  /// After a batch of issue(): hands it to the kernel.
  virtual void kick() = 0;
  /// Calls finish() for every result that is there; blocks for the first one if `block`.
  virtual void collect(bool block) = 0;

  /// The one way in which a request ends: `result` is bytes moved or -errno.
  void finish(std::uint32_t piece_index, std::int64_t result);

  /// What issue() was given with this index, while it is in flight.
  const Piece& piece(std::uint32_t index) const noexcept { return pieces_[index]; }
  /// Requests that the kernel has and whose results were not read yet.
  std::uint32_t in_flight() const noexcept { return in_flight_; }
  /// For destructors of backends: operations in flight end as they end, queued ones with ECANCELED.
  void drain() noexcept;

 private:
  struct Queue {
    IoOp* first = nullptr;
    IoOp* last = nullptr;
  };

  // Issues until nothing is left to issue, `depth` pieces are held or the backend has no room.
  void issue_queued();
  bool can_issue() const noexcept;
  bool issue_again();
  IoOp* next_op() const noexcept;
  std::uint32_t cut_piece(IoOp& op) noexcept;
  bool issue_piece(std::uint32_t piece_index);

  std::uint64_t busy_period_ns() const noexcept;

  // What a result means for its piece: afterwards it is dropped or in again_.
  void take_moved(Piece& piece, std::uint64_t moved_bytes);
  void continue_piece(Piece& piece, std::uint32_t moved_bytes);
  void drop_piece(Piece& piece) noexcept;
  void drop_again(const IoOp& op) noexcept;
  void fail(IoOp& op, int error, std::uint64_t offset) noexcept;
  void end_early(IoOp& op, int error);
  template <class Function>
  void for_each_unfinished(Function function);
  void finish_op_if_over(IoOp& op) noexcept;

  Queue& queue_of(IoOp::Place place) noexcept;
  void push(IoOp::Place place, IoOp& op) noexcept;
  void unlink(IoOp& op) noexcept;

  IoEngineOptions options_;
  IoStats stats_;
  std::array<Queue, kIoPriorities> queues_{};  // operations with bytes not yet issued
  Queue finished_;                             // callback still to be called
  std::uint64_t unfinished_ops_ = 0;           // submitted and not in finished_
  std::uint32_t in_flight_ = 0;                // pieces that the kernel has
  std::uint64_t piece_bytes_ = 0;              // of all pieces with the kernel or in again_
  IoOp::TimePoint busy_since_{};               // since then there has been one
  bool behind_turn_ = false;                   // whose turn it is among kAhead and kBehind
  bool no_room_ = false;                       // the backend said so, since the last results
  bool draining_ = false;
  // A piece is in exactly one of three places: free_pieces_, again_, or with the kernel.
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> free_pieces_;
  std::vector<std::uint32_t> again_;  // to be issued again: short, EINTR, EAGAIN, no room
};

}  // namespace penstock
