#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "alloc/result.h"
#include "swap/device/device.h"

namespace penstock {

/// A stream of a device for copies, and a thread that tells when each of them is done, so that the
/// host's side of it can be used again at once and nobody who asks for a copy waits. Thread-safe.
///
/// Copies happen and are told in the order in which they were asked for.
class CopyStream {
 public:
  /// Nothing: the bytes are there. Called on the thread of this object, without a lock: may ask for
  /// more copies, must not wait for one, must not throw.
  using Done = std::function<void(std::optional<Error>)>;

  /// Errors: the device's, which can make no stream.
  static Result<std::unique_ptr<CopyStream>> open(std::shared_ptr<Device> device);
  /// Waits for every copy, and tells it.
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  /// Both sides stay as they are until `done`, which is called for every copy, also for one that
  /// the device refuses.
  void copy_in(DeviceSpan target, std::span<const std::byte> source, Done done);
  void copy_out(std::span<std::byte> target, DeviceSpan source, Done done);
  /// Calls `work` on the thread of this object when all copies asked for so far are told. For what
  /// has to be done to the host's side before it is copied.
  void run(std::function<void()> work);
  /// Calls `done` when what was begun on this stream so far has happened, what it follows included.
  void mark(Done done);
  /// Whether this is that thread.
  bool on_thread() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

  /// For whoever orders work before copies by itself.
  StreamId stream() const noexcept { return stream_; }

  /// What is begun on `stream` from now on finds the bytes of all copies asked for so far.
  Result<void> precede(StreamId stream);
  /// Copies asked for from now on find what was begun on `stream` so far.
  Result<void> follow(StreamId stream);

 private:
  struct Copy {
    std::optional<EventId> event;  // recorded behind it; nothing: it was refused
    std::optional<Error> refusal;
    Done done;
  };
  using Lock = std::unique_lock<std::mutex>;

  CopyStream(std::shared_ptr<Device> device, StreamId stream);

  void enqueue(Result<void> begun, Done done);
  Result<EventId> take_event();
  // Makes one of the two streams wait for what the other was given so far.
  Result<void> order(StreamId first, StreamId second);
  void tell_copies();

  const std::shared_ptr<Device> device_;
  const StreamId stream_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<Copy> copies_;  // the first one's event is what the thread waits for
  std::vector<EventId> spare_events_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace penstock
