#pragma once

#include <atomic>
#include <cfenv>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "alloc/process_mark.h"

namespace penstock {

/// Threads that sleep between jobs. A chunk of an optimizer step takes less than a millisecond, and
/// to begin and end a thread a good part of that. The caller works too, and never waits for a
/// thread that has not woken: a job takes longest where no other thread can be had, and ends.
/// Thread-safe: a second job at the same time is done by its caller alone.
class ThreadTeam {
 public:
  /// Of this process; its threads are begun when they are first wanted. In a forked child, which
  /// has none of them, callers work alone.
  static ThreadTeam& of_process();

  ThreadTeam() = default;
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// Calls `work(part)` once for each part of [0, parts), by `threads` threads at most, the
  /// caller's among them. `work` does not throw, and computes alike on each: as the caller rounds,
  /// with denormal numbers or without. Back when all is done. Throws std::bad_alloc, before any
  /// part is done.
  void run(std::size_t parts, unsigned threads, const std::function<void(std::size_t part)>& work);

 private:
  // Each thread has a range of the parts, and helps with the others' when it is through: so memory
  // is read in order. Of two threads, each has the same range in the next job.
  struct Job {
    const std::function<void(std::size_t)>& work;
    const std::size_t parts;
    const std::fenv_t arithmetic;                 // the caller's
    std::vector<std::atomic<std::size_t>> taken;  // parts of each thread's range
    unsigned helpers = 0;                         // that work on it; guarded by mutex_

    void take_parts(std::size_t thread);
  };

  void begin_helpers(unsigned wanted);
  void help();

  const ProcessMark process_;
  std::mutex busy_;  // one job at a time; taken before mutex_
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  // All below is guarded by mutex_.
  Job* job_ = nullptr;
  unsigned seats_ = 0;  // helpers that may still join job_
  bool ends_ = false;
  std::vector<std::jthread> helpers_;
};

}  // namespace penstock
