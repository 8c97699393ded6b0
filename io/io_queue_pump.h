#pragma once

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "io/handler_storage.h"
#include "io/io_queue.h"

// The private half of io/io_queue.h. Only the queue's own files include it.

namespace penstock {

/// The work of the loop's thread, and the list of operations that other threads hand to it.
class IoQueue::Pump {
 public:
  explicit Pump(EventLoop& loop) : loop_(loop), results_(loop.context()), alarm_(loop.context()) {}

  // On the loop's thread.
  Result<std::string_view> open(Result<std::unique_ptr<IoEngine>> engine);

  void on_notify(std::function<void()> function) { notified_ = std::move(function); }
  void use(std::unique_ptr<IoEngine> engine) { engine_ = std::move(engine); }
  const IoEngine* engine() const noexcept { return engine_.get(); }
  /// Returns whether there was anything to do.
  bool step();

  // From any thread.
  void submit(std::span<IoOp* const> ops);
  void promote(IoOp& op);
  void cancel(IoOp& op);
  void notify() noexcept;
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
  /// Whether all that was submitted is with the engine; then it is gone from here on.
  bool nothing_comes();
  void take_submitted();
  void watch_deadlines();
  void publish();

  /// A handler that is posted at most once at a time.
  struct PostedOnce {
    HandlerStorage storage;
    bool is_posted = false;  // guarded by mutex_
  };
  /// Calls `work` on the loop's thread soon, once for all calls until it begins. With the lock.
  template <class Work>
  void post_once(PostedOnce& posted, Work work);

  EventLoop& loop_;

  // The loop thread's.
  std::unique_ptr<IoEngine> engine_;
  boost::asio::posix::stream_descriptor results_;  // borrows the engine's completion_fd()
  boost::asio::steady_timer alarm_;
  IoOp::TimePoint alarm_at_ = IoOp::kNoDeadline;  // no operation's deadline is before
  bool stopping_ = false;

  std::function<void()> notified_;  // never changes once operations start

  std::mutex mutex_;
  IoOp* first_ = nullptr;  // submitted and not taken yet, linked by IoOp::next
  IoOp* last_ = nullptr;
  bool closed_ = false;
  bool gone_ = false;  // the engine, hence soon the loop
  // Each of these handlers is posted at most once at a time.
  HandlerStorage take_storage_;
  PostedOnce promotion_;
  PostedOnce cancellation_;
  PostedOnce notice_;
  HandlerStorage stop_storage_;
  HandlerStorage results_storage_;

  mutable std::mutex stats_mutex_;
  IoStats stats_;
};

template <class Work>
void IoQueue::Pump::post_once(PostedOnce& posted, Work work) {
  if (std::exchange(posted.is_posted, true)) {
    return;
  }
  const HandlerAllocator<void> allocator(posted.storage);
  boost::asio::post(loop_.context(), boost::asio::bind_allocator(allocator, [this, &posted, work] {
                      {
                        const std::lock_guard lock(mutex_);
                        posted.is_posted = false;
                      }
                      work();
                    }));
}

// The caller waits, so everything lives on its stack: nothing is allocated. It rethrows what the
// function throws.
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

}  // namespace penstock
