#include "io/io_queue.h"

#include <algorithm>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "alloc/check.h"
#include "io/handler_storage.h"
#include "io/loop_probe.h"

namespace penstock {

/// What happens on the loop's thread, and the list through which other threads reach it.
class IoQueue::Pump {
 public:
  explicit Pump(EventLoop& loop) : loop_(loop), results_(loop.context()), alarm_(loop.context()) {}

  // On the loop's thread.
  Result<std::string_view> open(Result<std::unique_ptr<IoEngine>> engine);

  void use(std::unique_ptr<IoEngine> engine) { engine_ = std::move(engine); }
  const IoEngine* engine() const noexcept { return engine_.get(); }
  /// Returns whether there was anything to do.
  bool step();

  // From any thread.
  void submit(std::span<IoOp* const> ops);
  void promote(IoOp& op);
  void cancel(IoOp& op);
  void request_stop();
  IoStats stats() const;
  /// Calls `function(engine)` on the loop's thread and returns its value; `otherwise` when stopped.
  template <class Value, class Function>
  Value ask_engine(Function function, Value otherwise);
  /// Calls `function` on the loop's thread and waits for it.
  template <class Function>
  void call(Function function);
  /// The same; `posting` is held until it is posted.
  template <class Function>
  void post_and_wait(std::unique_lock<std::mutex> posting, Function function);

 private:
  void arm();
  bool look();
  void run();
  void take_submitted();
  void watch_deadlines();
  void publish();

  EventLoop& loop_;

  // The loop thread's.
  std::unique_ptr<IoEngine> engine_;
  boost::asio::posix::stream_descriptor results_;  // borrows the engine's completion_fd()
  boost::asio::steady_timer alarm_;
  IoOp::TimePoint alarm_at_ = IoOp::kNoDeadline;  // no operation's deadline is before
  bool stopping_ = false;

  std::mutex mutex_;
  IoOp* first_ = nullptr;  // submitted and not taken yet, linked by IoOp::next
  IoOp* last_ = nullptr;
  bool promote_posted_ = false;
  bool cancel_posted_ = false;
  bool closed_ = false;
  bool gone_ = false;  // the engine, hence soon the loop
  // Each of these handlers is posted at most once at a time.
  HandlerStorage take_storage_;
  HandlerStorage promote_storage_;
  HandlerStorage cancel_storage_;
  HandlerStorage stop_storage_;
  HandlerStorage results_storage_;

  mutable std::mutex stats_mutex_;
  IoStats stats_;
};

// Who asks waits, so all of it lies with him: nothing is allocated, and what the function throws is
// his.
template <class Function>
void IoQueue::Pump::post_and_wait(std::unique_lock<std::mutex> posting, Function function) {
  struct Asked {
    HandlerStorage storage;
    std::mutex mutex;
    std::condition_variable over_changed;
    bool over = false;
    std::exception_ptr thrown;
  } asked;
  const HandlerAllocator<void> allocator(asked.storage);
  boost::asio::post(loop_.context(),
                    boost::asio::bind_allocator(allocator, [&asked, &function]() noexcept {
                      try {
                        function();
                      } catch (...) {
                        asked.thrown = std::current_exception();
                      }
                      const std::lock_guard lock(asked.mutex);
                      asked.over = true;
                      asked.over_changed.notify_one();  // with the lock held: then it may be gone
                    }));
  if (posting) {
    posting.unlock();
  }
  std::unique_lock lock(asked.mutex);
  asked.over_changed.wait(lock, [&asked] { return asked.over; });
  if (asked.thrown) {
    std::rethrow_exception(asked.thrown);
  }
}

template <class Function>
void IoQueue::Pump::call(Function function) {
  post_and_wait({}, std::move(function));
}

template <class Value, class Function>
Value IoQueue::Pump::ask_engine(Function function, Value otherwise) {
  if (loop_.on_loop_thread() || loop_.caller_drives()) {
    return engine_ == nullptr ? std::move(otherwise) : function(*engine_);
  }
  // Posted under the lock, hence before request_stop() posts: the loop is there to run it.
  std::unique_lock lock(mutex_);
  if (closed_) {
    return otherwise;
  }
  post_and_wait(std::move(lock), [&] { otherwise = function(*engine_); });
  return otherwise;
}

Result<std::string_view> IoQueue::Pump::open(Result<std::unique_ptr<IoEngine>> engine) {
  if (!engine) {
    return engine.error();
  }
  boost::system::error_code error;
  if (results_.assign((*engine)->completion_fd(), error); error) {
    return system_error(error.value(), "cannot watch the I/O engine's results (epoll_ctl)");
  }
  // Now, and never again: the descriptor is so already, but Asio has to hear it from the kernel.
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
  if (stopping_ && engine_->idle()) {
    if (results_.is_open()) {
      results_.release();  // the descriptor is the engine's; this also ends the wait of arm()
    }
    alarm_.cancel();
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
    }
    engine_.reset();
  }
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

// The alarm is set for the earliest deadline there was when it was set: an operation that ends in
// time leaves it as it is, and it then rings in vain.
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
  if (closed_ || promote_posted_) {
    return;
  }
  promote_posted_ = true;
  const HandlerAllocator<void> allocator(promote_storage_);
  boost::asio::post(loop_.context(), boost::asio::bind_allocator(allocator, [this] {
                      {
                        const std::lock_guard posted_lock(mutex_);
                        promote_posted_ = false;
                      }
                      engine_->promote_urgent();
                    }));
}

void IoQueue::Pump::cancel(IoOp& op) {
  op.cancelled.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  if (gone_ || cancel_posted_) {
    return;
  }
  cancel_posted_ = true;
  const HandlerAllocator<void> allocator(cancel_storage_);
  boost::asio::post(loop_.context(), boost::asio::bind_allocator(allocator, [this] {
                      {
                        const std::lock_guard posted_lock(mutex_);
                        cancel_posted_ = false;
                      }
                      if (engine_ != nullptr) {
                        engine_->cancel_flagged();
                        run();
                      }
                    }));
}

// Whatever was posted under the lock before `closed_` was set runs before the engine can go.
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

// --- IoQueue ------------------------------------------------------------------------------------

IoQueue::IoQueue() = default;

IoQueue::~IoQueue() {
  if (pump_ != nullptr) {
    stop();
  }
}

Result<std::unique_ptr<IoQueue>> IoQueue::start(EngineKind kind, const IoEngineOptions& options) {
  return start_thread([&](std::vector<EngineCandidate>& refusals) {
    return make_engine(kind, options, &refusals);
  });
}

Result<std::unique_ptr<IoQueue>> IoQueue::start(const MakeEngine& make,
                                                const IoEngineOptions& options) {
  return start_thread([&](std::vector<EngineCandidate>&) { return make(options); });
}

Result<std::unique_ptr<IoQueue>> IoQueue::start_thread(
    const std::function<Result<std::unique_ptr<IoEngine>>(std::vector<EngineCandidate>&)>& make) {
  PENSTOCK_TRY(probe_loop_calls());
  std::unique_ptr<IoQueue> queue(new IoQueue);
  try {
    queue->loop_ = std::make_unique<EventLoop>("penstock-io");
    queue->pump_ = std::make_unique<Pump>(*queue->loop_);
  } catch (const std::system_error& error) {
    return system_error(error.code().value(),
                        "cannot start the I/O loop's thread (`ulimit -u` limits threads)");
  } catch (const boost::system::system_error& error) {
    return system_error(error.code().value(),
                        "cannot start the I/O loop (`ulimit -n` limits open files)");
  }
  Result<std::string_view> name = std::string_view();
  queue->pump_->call([&] { name = queue->pump_->open(make(queue->refusals_)); });
  if (!name) {
    return name.error();
  }
  queue->engine_name_ = *name;
  return queue;
}

std::unique_ptr<IoQueue> IoQueue::start_for_caller(std::unique_ptr<IoEngine> engine) {
  std::unique_ptr<IoQueue> queue(new IoQueue);
  queue->engine_name_ = engine->name();
  queue->loop_ = std::make_unique<EventLoop>();
  queue->pump_ = std::make_unique<Pump>(*queue->loop_);
  queue->pump_->use(std::move(engine));
  return queue;
}

IoOp::TimePoint IoQueue::now() const noexcept {
  const IoEngine* const engine = pump_->engine();
  return engine == nullptr ? std::chrono::steady_clock::now() : engine->now();
}

bool IoQueue::step() {
  return pump_->step();
}

void IoQueue::submit(IoOp& op) {
  IoOp* const one = &op;
  pump_->submit({&one, 1});
}

void IoQueue::submit(std::span<IoOp* const> ops) {
  pump_->submit(ops);
}

void IoQueue::promote(IoOp& op) {
  pump_->promote(op);
}

void IoQueue::cancel(IoOp& op) {
  pump_->cancel(op);
}

Result<void> IoQueue::register_memory(std::span<std::byte> memory) {
  return pump_->ask_engine<Result<void>>(
      [memory](IoEngine& engine) { return engine.register_memory(memory); },
      fault(Fault::kClosed, "cannot register memory with an I/O queue that was stopped"));
}

void IoQueue::unregister_memory(std::span<std::byte> memory) {
  pump_->ask_engine<bool>(
      [memory](IoEngine& engine) {
        engine.unregister_memory(memory);
        return true;
      },
      false);
}

Result<void> IoQueue::run_on(std::span<const std::uint32_t> cpus) {
  return loop_->run_on(cpus);
}

void IoQueue::stop() {
  PENSTOCK_CHECK(!on_loop_thread(), "an I/O queue cannot be stopped from a callback");
  pump_->request_stop();
  while (caller_drives() && step()) {
  }
  loop_->stop();
}

IoStats IoQueue::stats() const {
  return pump_->stats();
}

}  // namespace penstock
