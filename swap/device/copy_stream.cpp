#include "swap/device/copy_stream.h"

#include <utility>

namespace penstock {

Result<std::unique_ptr<CopyStream>> CopyStream::open(std::shared_ptr<Device> device) {
  const Result<StreamId> stream = device->make_stream();
  PENSTOCK_TRY(stream);
  return std::unique_ptr<CopyStream>(new CopyStream(std::move(device), *stream));
}

CopyStream::CopyStream(std::shared_ptr<Device> device, StreamId stream)
    : device_(std::move(device)), stream_(stream), thread_([this] { tell_copies(); }) {}

CopyStream::~CopyStream() {
  {
    const Lock lock(mutex_);
    ending_ = true;
  }
  asked_.notify_one();
  thread_.join();
  for (const EventId event : spare_events_) {
    device_->destroy_event(event);
  }
  device_->destroy_stream(stream_);
}

void CopyStream::copy_in(DeviceSpan target, std::span<const std::byte> source, Done done) {
  const Lock lock(mutex_);
  enqueue(device_->copy_in(target, source, stream_), std::move(done));
}

void CopyStream::copy_out(std::span<std::byte> target, DeviceSpan source, Done done) {
  const Lock lock(mutex_);
  enqueue(device_->copy_out(target, source, stream_), std::move(done));
}

void CopyStream::mark(Done done) {
  const Lock lock(mutex_);
  enqueue({}, std::move(done));
}

void CopyStream::run(std::function<void()> work) {
  const Lock lock(mutex_);
  copies_.push_back(
      {std::nullopt, std::nullopt, [work = std::move(work)](const auto&) { work(); }});
  asked_.notify_one();  // with the lock held: when the work is done this may be gone
}

// Under the lock from the copy to its event: another copy between them would be waited for too.
void CopyStream::enqueue(Result<void> begun, Done done) {
  Copy& copy = copies_.emplace_back();
  copy.done = std::move(done);
  Result<EventId> event = begun.has_error() ? Result<EventId>(begun.error()) : take_event();
  if (event.has_value()) {
    begun = device_->record(*event, stream_);
    if (begun.has_error()) {
      spare_events_.push_back(*event);
      event = begun.error();
    }
  }
  if (event.has_value()) {
    copy.event = *event;
  } else {
    copy.refusal = event.error();
  }
  asked_.notify_one();  // with the lock held: when the copy is done this may be gone
}

Result<EventId> CopyStream::take_event() {
  if (spare_events_.empty()) {
    return device_->make_event();
  }
  const EventId event = spare_events_.back();
  spare_events_.pop_back();
  return event;
}

Result<void> CopyStream::precede(StreamId stream) {
  return order(stream_, stream);
}

Result<void> CopyStream::follow(StreamId stream) {
  return order(stream, stream_);
}

// The event may be recorded again as soon as the second stream has been told of it.
Result<void> CopyStream::order(StreamId first, StreamId second) {
  const Lock lock(mutex_);
  const Result<EventId> event = take_event();
  PENSTOCK_TRY(event);
  Result<void> ordered = device_->record(*event, first);
  if (ordered.has_value()) {
    ordered = device_->hold(second, *event);
  }
  spare_events_.push_back(*event);
  return ordered;
}

void CopyStream::tell_copies() {
  Lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return ending_ || !copies_.empty(); });
    if (copies_.empty()) {
      return;
    }
    const std::optional<EventId> event = copies_.front().event;
    std::optional<Error> error = copies_.front().refusal;
    lock.unlock();
    if (event) {
      if (const Result<void> waited = device_->wait(*event); waited.has_error()) {
        error = waited.error();
      }
    }
    lock.lock();
    const Done done = std::move(copies_.front().done);
    copies_.pop_front();
    if (event) {
      spare_events_.push_back(*event);
    }
    lock.unlock();
    done(std::move(error));
    lock.lock();
  }
}

}  // namespace penstock
