#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock {

class File;

enum class IoKind : std::uint8_t { kRead, kWrite };

/// Who goes first when there is more to do than the drive's queue holds.
enum class IoPriority : std::uint8_t {
  kDemand = 0,  ///< a caller waits for it
  kAhead = 1,   ///< read-ahead
  kBehind = 2,  ///< write-back
};
inline constexpr std::size_t kIoPriorities = 3;

/// One read or write of any size. Owned by the caller, who fills the first block, submits it, and
/// touches nothing until `on_complete` has been called. Never moved, never copied: the engine links
/// it into its queues. An engine splits it, continues what comes back short and retries
/// EINTR/EAGAIN; so a completed operation has moved all its bytes or carries an errno.
///
///   kIdle -submit-> kQueued -first piece issued-> kInFlight -callback-> kDone -submit-> kQueued
struct IoOp {
  enum class State : std::uint8_t { kIdle, kQueued, kInFlight, kDone };
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr TimePoint kNoDeadline = TimePoint::max();

  IoOp() = default;
  IoOp(const IoOp&) = delete;
  IoOp& operator=(const IoOp&) = delete;

  // Set by the caller. Direct files want `offset`, `data` and `bytes` aligned as File::direct()
  // says.
  IoKind kind = IoKind::kRead;
  IoPriority priority = IoPriority::kDemand;
  const File* file = nullptr;
  std::byte* data = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  void* context = nullptr;
  /// After it the engine issues nothing more of this operation and ends it with ETIMEDOUT, once the
  /// kernel has answered what it already has: `data` is not touched after the callback. IoQueue
  /// watches it.
  TimePoint deadline = kNoDeadline;
  /// Called once, on the thread that polls the engine, after all bookkeeping: it may reuse,
  /// resubmit or destroy this operation. ECANCELED means that the engine ends: do not resubmit to
  /// it.
  void (*on_complete)(IoOp& op) noexcept = nullptr;

  /// Set from any thread by IoQueue::promote: the engine moves the operation to the demand queue.
  std::atomic<bool> urgent{false};
  /// Set from any thread by IoQueue::cancel: the engine ends the operation with ECANCELED.
  std::atomic<bool> cancelled{false};

  // Result, valid in on_complete: 0 or an errno (ENODATA: the file ended early), and where it
  // failed.
  int error = 0;
  std::uint64_t error_offset = 0;

  // The engine's.
  enum class Place : std::uint8_t { kNowhere, kDemand, kAhead, kBehind, kFinished };
  State state = State::kIdle;
  Place place = Place::kNowhere;  // which of the engine's lists links it
  std::uint64_t issued_bytes = 0;
  std::uint64_t done_bytes = 0;
  std::uint32_t pieces_in_flight = 0;
  IoOp* previous = nullptr;
  IoOp* next = nullptr;
};

}  // namespace penstock
