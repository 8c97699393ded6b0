#include "io/event_loop.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "alloc/check.h"
#include "io/blocked_signals.h"

namespace penstock {
namespace {

constexpr std::size_t kThreadNameMax = 15;  // the kernel's limit, without the closing 0

// Time between two checks for work without a notification: with operations in flight, and without.
constexpr std::chrono::milliseconds kBusyPause{50};
constexpr std::chrono::milliseconds kIdlePause{1000};

}  // namespace

EventLoop::EventLoop(std::string thread_name)
    : caller_drives_(false), context_(1), work_(boost::asio::make_work_guard(context_)) {
  thread_name.resize(std::min(thread_name.size(), kThreadNameMax));
  const BlockedSignals while_starting;
  thread_ = std::thread([this, name = std::move(thread_name)] {
    ::pthread_setname_np(::pthread_self(), name.c_str());
    thread_id_.store(std::this_thread::get_id());
    run();
    thread_id_.store({});  // the system may give the number to another thread
  });
}

// A notification can get lost (a filter that forbids epoll_ctl, epoll_wait or write after they were
// proven), so the loop also looks without one now and then.
void EventLoop::run() {
  std::chrono::milliseconds pause = kIdlePause;
  while (!context_.stopped()) {
    context_.run_for(pause);
    pause = look_ && look_() ? kBusyPause : kIdlePause;
  }
}

EventLoop::EventLoop()
    : caller_drives_(true), context_(1), work_(boost::asio::make_work_guard(context_)) {}

std::size_t EventLoop::begin_step() {
  PENSTOCK_CHECK(caller_drives_ && !on_loop_thread(), "step() of a loop that runs already ({})",
                 caller_drives_ ? "within a step" : "on its own thread");
  thread_id_.store(std::this_thread::get_id());
  return context_.poll();
}

EventLoop::~EventLoop() {
  stop();
}

bool EventLoop::on_loop_thread() const noexcept {
  return thread_id_.load() == std::this_thread::get_id();
}

Result<void> EventLoop::run_on(std::span<const std::uint32_t> cpus) {
  const std::lock_guard lock(stop_mutex_);
  if (!thread_.joinable()) {
    return {};
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (const int error = ::pthread_getaffinity_np(thread_.native_handle(), sizeof allowed, &allowed);
      error != 0) {
    return system_error(error, "cannot ask on which cores the I/O loop may run");
  }
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const std::uint32_t cpu : cpus) {
    if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed)) {
      CPU_SET(cpu, &wanted);
    }
  }
  if (CPU_COUNT(&wanted) == 0) {
    return {};
  }
  if (const int error = ::pthread_setaffinity_np(thread_.native_handle(), sizeof wanted, &wanted);
      error != 0) {
    return system_error(error, "cannot keep the I/O loop on its cores");
  }
  return {};
}

void EventLoop::stop() {
  PENSTOCK_CHECK(!on_loop_thread(), "an event loop cannot wait for itself");
  const std::lock_guard lock(stop_mutex_);
  if (thread_.joinable()) {
    work_.reset();
    thread_.join();
  }
}

}  // namespace penstock
