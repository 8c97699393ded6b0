#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <variant>

#include "swap/device/device.h"

namespace penstock {

/// The streams and events of a HostDevice: what was asked of each stream, in which order of all it
/// happens. Each question after an event moves them on by a few steps that the seed chooses, any
/// stream before any other, copies in pieces. Guarded by the device's lock.
class HostStreams {
 public:
  struct Copy {
    std::byte* target;
    const std::byte* source;
    std::uint64_t bytes;
    std::span<const std::byte> host;  ///< its side outside the device
  };
  enum class Until : std::uint8_t {
    kLater,
    kReturn,  ///< it happens before the call returns, and all that is before it in its stream
  };

  /// One stream is there, the default one.
  explicit HostStreams(std::uint64_t seed) : random_(seed) { streams_[StreamId{}]; }

  StreamId make_stream();
  /// What was asked of it happens first.
  void destroy_stream(StreamId stream) noexcept;
  Result<void> copy(const Copy& copy, StreamId stream, Until until);
  EventId make_event();
  void destroy_event(EventId event) noexcept;
  /// See Device.
  Result<void> record(EventId event, StreamId stream);
  Result<bool> happened(EventId event);
  Result<void> wait(EventId event);
  Result<void> hold(StreamId stream, EventId event);

  void finish_all();
  /// Stops the program where a copy from or to `host` is under way.
  void check_unused(std::span<const std::byte> host) const noexcept;

 private:
  struct Mark {  // the event's `turn`-th record happens here
    EventId event;
    std::uint64_t turn;
  };
  struct Hold {  // nothing behind it begins before that
    EventId event;
    std::uint64_t turn;
  };
  using Work = std::variant<Copy, Mark, Hold>;
  using Stream = std::deque<Work>;
  struct Event {
    std::uint64_t recorded = 0;
    std::uint64_t happened = 0;
  };

  Result<Stream*> stream_of(StreamId stream);
  Result<Event*> event_of(EventId event);
  // Moves some stream on by a step; false where none can.
  bool step();
  bool can_step(const Stream& stream) const;
  void step(Stream& stream);
  void finish(Stream& stream);

  std::mt19937_64 random_;
  std::uintptr_t next_handle_ = 1;
  std::map<StreamId, Stream> streams_;
  std::map<EventId, Event> events_;
};

}  // namespace penstock
