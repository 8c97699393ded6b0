#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "alloc/check.h"

namespace penstock {

/// How a thread passes the time until others have done something: asleep; or, where there is no
/// other thread to do it (a queue that its caller drives, as in simulations), by doing it itself,
/// step by step. Counts the time that was waited, by the machine's clock or, in a simulation, by
/// that of the drive. Thread-safe.
class Waiting {
 public:
  /// Does a little of what others would do; false: there is nothing left to do. Called without
  /// locks.
  using Step = std::function<bool()>;
  using Clock = std::chrono::steady_clock;
  /// What time it is. Called with and without locks.
  using Now = std::function<Clock::time_point()>;

  Waiting() = default;
  explicit Waiting(Step step, Now now = {}) : step_(std::move(step)), now_(std::move(now)) {}

  Clock::time_point now() const { return now_ ? now_() : Clock::now(); }

  /// Until `ready()`, which is called with `lock` held; `changed` is notified when it may have
  /// changed. False: `deadline` came first.
  template <class Ready>
  bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Ready ready,
            std::optional<Clock::time_point> deadline = std::nullopt) {
    if (ready()) {
      return true;
    }
    const Clock::time_point begin = now();
    bool came = true;
    if (step_) {
      came = step_until(lock, ready, deadline);
    } else if (deadline) {
      came = changed.wait_until(lock, *deadline, ready);
    } else {
      changed.wait(lock, ready);
    }
    const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(now() - begin);
    waited_ns_.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
    return came;
  }

  std::uint64_t waited_ns() const noexcept { return waited_ns_.load(std::memory_order_relaxed); }

 private:
  template <class Ready>
  bool step_until(std::unique_lock<std::mutex>& lock, Ready ready,
                  std::optional<Clock::time_point> deadline) {
    while (!ready()) {
      if (deadline && now() >= *deadline) {
        return false;
      }
      lock.unlock();
      const bool went_on = step_();
      lock.lock();
      PENSTOCK_CHECK(went_on || ready(),
                     "waits for ever: no step makes the condition true ({} ns so far)",
                     waited_ns());
    }
    return true;
  }

  Step step_;
  Now now_;
  std::atomic<std::uint64_t> waited_ns_{0};
};

}  // namespace penstock
