#include "io/io_queue_pump.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace penstock {

Result<std::string_view> IoQueue::Pump::open(Result<std::unique_ptr<IoEngine>> engine) {
  if (!engine) {
    return engine.error();
  }
  boost::system::error_code error;
  if (results_.assign((*engine)->completion_fd(), error); error) {
    return system_error(error.value(), "cannot watch the I/O engine's results (epoll_ctl)");
  }
  // Once: the descriptor does not block already, but Asio has to set that itself.
  if (results_.non_blocking(true, error); error) {
    return system_error(error.value(), "cannot watch the I/O engine's results (ioctl)");
  }
  engine_ = std::move(*engine);
  loop_.look_by([this] { return look(); });
  arm();
  return engine_->name();
}

// Runs with or without a notification. Returns whether operations are in flight.
bool IoQueue::Pump::look() {
  if (engine_ == nullptr) {
    return false;
  }
  if (alarm_at_ <= std::chrono::steady_clock::now()) {
    watch_deadlines();
  }
  run();
  return engine_ != nullptr && !engine_->idle();
}

bool IoQueue::Pump::step() {
  bool busy = false;
  const std::size_t ran = loop_.step([&] {
    if (engine_ != nullptr) {
      busy = !engine_->idle();
      (void)engine_->wait();
      run();
    }
  });
  return busy || ran != 0;
}

void IoQueue::Pump::arm() {
  const HandlerAllocator<void> allocator(results_storage_);
  results_.async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      boost::asio::bind_allocator(allocator, [this](const boost::system::error_code& error) {
        if (error || engine_ == nullptr) {
          return;  // stopped
        }
        run();
        if (engine_ != nullptr) {
          arm();
        }
      }));
}

void IoQueue::Pump::run() {
  engine_->advance();
  publish();  // a callback finds its operation counted
  engine_->deliver();
  publish();
  if (stopping_ && engine_->idle() && nothing_comes()) {
    if (results_.is_open()) {
      results_.release();  // the descriptor is the engine's; this also ends the wait of arm()
    }
    alarm_.cancel();
    engine_.reset();
  }
}

// What a callback posts runs after what another thread posted meanwhile, which may be the stop. So
// operations may still be listed when that comes; the engine waits for them.
bool IoQueue::Pump::nothing_comes() {
  const std::lock_guard lock(mutex_);
  gone_ = first_ == nullptr;
  return gone_;
}

void IoQueue::Pump::submit(std::span<IoOp* const> ops) {
  std::unique_lock lock(mutex_);
  if (closed_) {
    lock.unlock();
    for (IoOp* const op : ops) {
      op->error = ECANCELED;
      op->error_offset = op->offset;
      op->state = IoOp::State::kDone;
      op->on_complete(*op);
    }
    return;
  }
  const bool was_empty = first_ == nullptr;
  for (IoOp* const op : ops) {
    op->cancelled.store(false, std::memory_order_relaxed);  // of the last time
    op->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = op;
    last_ = op;
  }
  if (was_empty && first_ != nullptr) {
    const HandlerAllocator<void> allocator(take_storage_);
    boost::asio::post(loop_.context(),
                      boost::asio::bind_allocator(allocator, [this] { take_submitted(); }));
  }
}

void IoQueue::Pump::take_submitted() {
  IoOp* op = nullptr;
  {
    const std::lock_guard lock(mutex_);
    op = std::exchange(first_, nullptr);
    last_ = nullptr;
  }
  IoOp::TimePoint earliest = IoOp::kNoDeadline;
  while (op != nullptr) {
    IoOp* const next = op->next;
    earliest = std::min(earliest, op->deadline);
    engine_->submit(*op);
    op = next;
  }
  if (earliest < alarm_at_) {
    watch_deadlines();
  }
  run();
}

// The alarm is set for the earliest deadline at that moment. An operation that ends in time leaves
// it set; it then expires without effect.
void IoQueue::Pump::watch_deadlines() {
  alarm_at_ = engine_->expire(std::chrono::steady_clock::now());
  if (alarm_at_ == IoOp::kNoDeadline) {
    return;
  }
  alarm_.expires_at(alarm_at_);
  alarm_.async_wait([this](const boost::system::error_code& error) {
    if (error || engine_ == nullptr) {
      return;  // set anew, or stopped
    }
    watch_deadlines();
    run();
  });
}

void IoQueue::Pump::promote(IoOp& op) {
  op.urgent.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  if (!closed_) {
    post_once(promotion_, [this] {
      if (engine_ != nullptr) {  // the stop may run before what a callback posted
        engine_->promote_urgent();
      }
    });
  }
}

void IoQueue::Pump::cancel(IoOp& op) {
  op.cancelled.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  if (!gone_) {
    post_once(cancellation_, [this] {
      if (engine_ != nullptr) {
        engine_->cancel_flagged();
        run();
      }
    });
  }
}

void IoQueue::Pump::notify() noexcept {
  const std::lock_guard lock(mutex_);
  if (!closed_) {
    post_once(notice_, [this] {
      if (notified_) {
        notified_();
      }
    });
  }
}

// What another thread posted under the lock before `closed_` was set runs before the engine can go.
void IoQueue::Pump::request_stop() {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    return;
  }
  closed_ = true;
  const HandlerAllocator<void> allocator(stop_storage_);
  boost::asio::post(loop_.context(), boost::asio::bind_allocator(allocator, [this] {
                      stopping_ = true;
                      if (engine_ != nullptr) {
                        run();
                      }
                    }));
}

void IoQueue::Pump::publish() {
  const std::lock_guard lock(stats_mutex_);
  stats_ = engine_->stats();
}

IoStats IoQueue::Pump::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

}  // namespace penstock
