#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "alloc/result.h"
#include "swap/device/device.h"

namespace penstock {

/// One copy of a CopyStream, or a piece of work between copies. Owned by the caller, who touches
/// nothing until `on_complete`. Never moved: the stream links it.
struct CopyOp {
  CopyOp() = default;
  CopyOp(const CopyOp&) = delete;
  CopyOp& operator=(const CopyOp&) = delete;

  // Set by the caller.
  void* context = nullptr;
  /// Called once, on the stream's thread, without a lock. May ask for more copies, also with this
  /// operation, and may destroy it; must not wait for a copy.
  void (*on_complete)(CopyOp& op) noexcept = nullptr;

  /// Result, valid in on_complete. Nothing: the bytes are there.
  std::optional<Error> error;

  // The stream's.
  std::optional<EventId> event;  // recorded behind it; nothing: it was refused
  CopyOp* next = nullptr;
};

/// A stream of a device for copies, and a thread that ends each of them when it has happened, so
/// that the host's side of it can be used again at once and no caller waits. Copies happen and end
/// in the order in which they were asked for. Allocates nothing but events, which it keeps.
/// Thread-safe.
class CopyStream {
 public:
  /// Errors: the device's, which can make no stream.
  static Result<std::unique_ptr<CopyStream>> open(std::shared_ptr<Device> device);
  /// Waits for every copy, and ends it.
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  /// Both sides stay as they are until the operation ends, which every one does, also one that the
  /// device refuses.
  void copy_in(CopyOp& op, DeviceSpan target, std::span<const std::byte> source);
  void copy_out(CopyOp& op, std::span<std::byte> target, DeviceSpan source);
  /// Ends when all copies asked for so far have ended. For what has to be done to the host's side
  /// before it is copied.
  void run(CopyOp& op);
  /// Ends when what was begun on this stream so far has happened, what it follows included.
  void mark(CopyOp& op);
  /// Whether this is the stream's thread.
  bool on_thread() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

  /// For callers that order work before copies by themselves.
  StreamId stream() const noexcept { return stream_; }

  /// What is begun on `stream` from now on finds the bytes of all copies asked for so far.
  Result<void> precede(StreamId stream);
  /// Copies asked for from now on find what was begun on `stream` so far.
  Result<void> follow(StreamId stream);

 private:
  using Lock = std::unique_lock<std::mutex>;

  CopyStream(std::shared_ptr<Device> device, StreamId stream);

  void enqueue(CopyOp& op, Result<void> begun);
  void append(CopyOp& op);
  Result<EventId> take_event();
  // Makes one of the two streams wait for what the other was given so far.
  Result<void> order(StreamId first, StreamId second);
  void end_copies();

  const std::shared_ptr<Device> device_;
  const StreamId stream_;
  std::mutex mutex_;
  std::condition_variable asked_;
  CopyOp* first_ = nullptr;  // its event is what the thread waits for
  CopyOp* last_ = nullptr;
  std::vector<EventId> spare_events_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace penstock
