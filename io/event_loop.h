#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "alloc/result.h"

namespace penstock {

/// A Boost.Asio io_context on a thread of its own, or driven by its caller: where completions,
/// timers and posted work of one drive arrive. All signals are blocked on that thread. Made by one
/// owner; everything else from any thread.
class EventLoop {
 public:
  /// Throws std::system_error where there can be no more threads; what is made over context()
  /// throws boost::system::system_error, which is another, where there can be no more files.
  explicit EventLoop(std::string thread_name);
  /// Has no thread: step() does the work.
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  boost::asio::io_context& context() noexcept { return context_; }
  /// `look` is called on the loop's thread at intervals, with or without a notification; it returns
  /// whether operations are in flight. Set it on the loop's thread, before any operation starts.
  void look_by(std::function<bool()> look) { look_ = std::move(look); }
  /// On its thread, or within step().
  bool on_loop_thread() const noexcept;
  bool caller_drives() const noexcept { return caller_drives_; }
  /// Where there is no thread: runs what is posted, then `more`. Returns how many handlers ran.
  template <class Function>
  std::size_t step(Function more);
  /// Keeps the thread on those of these cores that the process may use (its affinity mask, for
  /// example of `taskset`); without any core in common nothing changes.
  Result<void> run_on(std::span<const std::uint32_t> cpus);
  /// Lets what is posted finish, then joins the thread. Idempotent. Not from the loop's own thread.
  void stop();

 private:
  void run();
  std::size_t begin_step();
  void end_step() noexcept { thread_id_.store({}); }

  const bool caller_drives_;
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::mutex stop_mutex_;
  std::atomic<std::thread::id> thread_id_;
  std::function<bool()> look_;  // its thread's
  std::thread thread_;
};

template <class Function>
std::size_t EventLoop::step(Function more) {
  const std::size_t ran = begin_step();
  more();
  end_step();
  return ran;
}

}  // namespace penstock
