#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <string>
#include <thread>

namespace penstock {

/// A Boost.Asio io_context on a thread of its own: where completions, timers and posted work of one
/// drive arrive. All signals are blocked on that thread. Made and stopped by one owner; post() and
/// context() from any thread.
class EventLoop {
 public:
  explicit EventLoop(std::string thread_name);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  boost::asio::io_context& context() noexcept { return context_; }
  bool on_loop_thread() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }
  /// Lets what is posted finish, then joins the thread. Idempotent. Not from the loop's own thread.
  void stop();

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace penstock
