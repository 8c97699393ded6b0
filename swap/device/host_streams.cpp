#include "swap/device/host_streams.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "alloc/check.h"

namespace penstock {
namespace {

constexpr std::uint64_t kStepsMax = 3;   // for one question
constexpr std::uint64_t kPiecesMax = 4;  // of a copy

Error not_there(const char* what) {
  return fault(Fault::kInvalidArgument,
               std::string("the simulated device: there is no such ") + what);
}

bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) {
  const std::less<const std::byte*> before;
  return before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

}  // namespace

StreamId HostStreams::make_stream() {
  const StreamId id{next_handle_++};
  streams_[id];
  return id;
}

void HostStreams::destroy_stream(StreamId stream) noexcept {
  const auto found = streams_.find(stream);
  PENSTOCK_CHECK(found != streams_.end() && stream != StreamId{}, "there is no such stream");
  finish(found->second);
  streams_.erase(found);
}

Result<HostStreams::Stream*> HostStreams::stream_of(StreamId stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) {
    return not_there("stream");
  }
  return &found->second;
}

Result<void> HostStreams::copy(const Copy& copy, StreamId stream, Until until) {
  const Result<Stream*> found = stream_of(stream);
  PENSTOCK_TRY(found);
  if (copy.bytes == 0) {
    return {};
  }
  (*found)->push_back(copy);
  if (until == Until::kReturn) {
    finish(**found);
  }
  return {};
}

EventId HostStreams::make_event() {
  const EventId id{next_handle_++};
  events_[id];
  return id;
}

void HostStreams::destroy_event(EventId event) noexcept {
  PENSTOCK_CHECK(events_.erase(event) == 1, "there is no such event");
}

Result<HostStreams::Event*> HostStreams::event_of(EventId event) {
  const auto found = events_.find(event);
  if (found == events_.end()) {
    return not_there("event");
  }
  return &found->second;
}

Result<void> HostStreams::record(EventId event, StreamId stream) {
  const Result<Event*> marked = event_of(event);
  PENSTOCK_TRY(marked);
  const Result<Stream*> found = stream_of(stream);
  PENSTOCK_TRY(found);
  (*found)->push_back(Mark{event, ++(*marked)->recorded});
  return {};
}

Result<bool> HostStreams::happened(EventId event) {
  const Result<Event*> found = event_of(event);
  PENSTOCK_TRY(found);
  for (std::uint64_t steps = random_() % (kStepsMax + 1); steps > 0 && step(); --steps) {
  }
  return (*found)->happened >= (*found)->recorded;
}

Result<void> HostStreams::wait(EventId event) {
  const Result<Event*> found = event_of(event);
  PENSTOCK_TRY(found);
  while ((*found)->happened < (*found)->recorded) {
    PENSTOCK_CHECK(step(), "an event is waited for that cannot happen");
  }
  return {};
}

Result<void> HostStreams::hold(StreamId stream, EventId event) {
  const Result<Event*> awaited = event_of(event);
  PENSTOCK_TRY(awaited);
  const Result<Stream*> found = stream_of(stream);
  PENSTOCK_TRY(found);
  (*found)->push_back(Hold{event, (*awaited)->recorded});
  return {};
}

void HostStreams::finish_all() {
  for (auto& [id, stream] : streams_) {
    finish(stream);
  }
}

void HostStreams::check_unused(std::span<const std::byte> host) const noexcept {
  for (const auto& [stream, works] : streams_) {
    for (const Work& work : works) {
      const Copy* const copy = std::get_if<Copy>(&work);
      PENSTOCK_CHECK(copy == nullptr || !overlap(copy->host, host),
                     "memory is unpinned with a copy under way in stream {}",
                     static_cast<std::uintptr_t>(stream));
    }
  }
}

bool HostStreams::can_step(const Stream& stream) const {
  if (stream.empty()) {
    return false;
  }
  const Hold* const hold = std::get_if<Hold>(&stream.front());
  if (hold == nullptr) {
    return true;
  }
  const auto event = events_.find(hold->event);
  return event == events_.end() || event->second.happened >= hold->turn;
}

bool HostStreams::step() {
  std::vector<Stream*> ready;
  for (auto& [id, stream] : streams_) {
    if (can_step(stream)) {
      ready.push_back(&stream);
    }
  }
  if (ready.empty()) {
    return false;
  }
  step(*ready[random_() % ready.size()]);
  return true;
}

void HostStreams::step(Stream& stream) {
  Work& work = stream.front();
  if (Copy* const copy = std::get_if<Copy>(&work)) {
    const std::uint64_t bytes =
        std::min(copy->bytes, copy->bytes / (1 + random_() % kPiecesMax) + 1);
    std::memcpy(copy->target, copy->source, bytes);
    copy->target += bytes;
    copy->source += bytes;
    copy->bytes -= bytes;
    if (copy->bytes > 0) {
      return;
    }
  } else if (const Mark* const mark = std::get_if<Mark>(&work)) {
    if (const auto event = events_.find(mark->event); event != events_.end()) {
      event->second.happened = std::max(event->second.happened, mark->turn);
    }
  }
  stream.pop_front();
}

void HostStreams::finish(Stream& stream) {
  while (!stream.empty()) {
    if (can_step(stream)) {
      step(stream);
    } else {
      PENSTOCK_CHECK(step(), "a stream waits for an event that cannot happen");
    }
  }
}

}  // namespace penstock
