#include "swap/device/copy_stream.h"

#include <utility>

namespace penstock {

Result<std::unique_ptr<CopyStream>> CopyStream::open(std::shared_ptr<Device> device) {
  const Result<StreamId> stream = device->make_stream();
  PENSTOCK_TRY(stream);
  return std::unique_ptr<CopyStream>(new CopyStream(std::move(device), *stream));
}

CopyStream::CopyStream(std::shared_ptr<Device> device, StreamId stream)
    : device_(std::move(device)), stream_(stream), thread_([this] { end_copies(); }) {}

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

void CopyStream::copy_in(CopyOp& op, DeviceSpan target, std::span<const std::byte> source) {
  const Lock lock(mutex_);
  enqueue(op, device_->copy_in(target, source, stream_));
}

void CopyStream::copy_out(CopyOp& op, std::span<std::byte> target, DeviceSpan source) {
  const Lock lock(mutex_);
  enqueue(op, device_->copy_out(target, source, stream_));
}

void CopyStream::mark(CopyOp& op) {
  const Lock lock(mutex_);
  enqueue(op, {});
}

void CopyStream::run(CopyOp& op) {
  const Lock lock(mutex_);
  op.event.reset();
  op.error.reset();
  append(op);
}

// Under the lock from the copy to its event: another copy between them would be waited for too.
void CopyStream::enqueue(CopyOp& op, Result<void> begun) {
  op.event.reset();
  op.error.reset();
  Result<EventId> event = begun.has_error() ? Result<EventId>(begun.error()) : take_event();
  if (event.has_value()) {
    begun = device_->record(*event, stream_);
    if (begun.has_error()) {
      spare_events_.push_back(*event);
      event = begun.error();
    }
  }
  if (event.has_value()) {
    op.event = *event;
  } else {
    op.error = event.error();
  }
  append(op);
}

void CopyStream::append(CopyOp& op) {
  op.next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = &op;
  last_ = &op;
  asked_.notify_one();  // with the lock held: when the copy has ended this may be gone
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

// The event may be recorded again as soon as the second stream knows of it.
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

void CopyStream::end_copies() {
  Lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return ending_ || first_ != nullptr; });
    if (first_ == nullptr) {
      return;
    }
    CopyOp& op = *first_;
    if (op.event) {
      lock.unlock();
      Result<void> waited = device_->wait(*op.event);
      lock.lock();
      if (waited.has_error()) {
        op.error = std::move(waited).error();
      }
      spare_events_.push_back(*op.event);
    }
    first_ = op.next;
    last_ = first_ == nullptr ? nullptr : last_;
    lock.unlock();
    op.on_complete(op);
    lock.lock();
  }
}

}  // namespace penstock
