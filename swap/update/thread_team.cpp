#include "swap/update/thread_team.h"

#include <algorithm>
#include <system_error>

namespace penstock {
namespace {

/// How this thread rounds, and whether it takes denormal numbers for zero.
std::fenv_t arithmetic_of_thread() noexcept {
  std::fenv_t arithmetic{};
  (void)std::fegetenv(&arithmetic);  // never fails
  return arithmetic;
}

}  // namespace

/// Never destroyed: its threads sleep until the process ends, whatever ends first.
ThreadTeam& ThreadTeam::of_process() {
  static auto* const team = new ThreadTeam;
  return *team;
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
}

void ThreadTeam::Job::take_parts(std::size_t thread) {
  const std::size_t ranges = taken.size();
  for (std::size_t i = 0; i < ranges; ++i) {
    const std::size_t range = (thread + i) % ranges;
    const std::size_t begin = parts * range / ranges;
    const std::size_t end = parts * (range + 1) / ranges;
    for (std::size_t part = begin + taken[range]++; part < end; part = begin + taken[range]++) {
      work(part);
    }
  }
}

void ThreadTeam::run(std::size_t parts, unsigned threads,
                     const std::function<void(std::size_t part)>& work) {
  const std::size_t workers = std::min<std::size_t>(threads, parts);
  std::unique_lock<std::mutex> busy(busy_, std::defer_lock);
  if (workers < 2 || process_.elsewhere() || !busy.try_lock()) {
    for (std::size_t part = 0; part < parts; ++part) {
      work(part);
    }
    return;
  }
  Job job{work, parts, arithmetic_of_thread(), std::vector<std::atomic<std::size_t>>(workers)};
  const auto helpers = static_cast<unsigned>(workers - 1);
  begin_helpers(helpers);
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    seats_ = helpers;
  }
  wake_.notify_all();
  job.take_parts(0);
  std::unique_lock lock(mutex_);
  job_ = nullptr;
  seats_ = 0;
  done_.wait(lock, [&job] { return job.helpers == 0; });
}

/// Those that there are make do where the process may have no more threads.
void ThreadTeam::begin_helpers(unsigned wanted) {
  const std::lock_guard lock(mutex_);
  try {
    while (helpers_.size() < wanted) {
      helpers_.emplace_back([this] { help(); });
    }
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
}

void ThreadTeam::help() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ends_ || seats_ > 0; });
    if (ends_) {
      return;
    }
    const unsigned thread = seats_--;  // 0 is the caller
    Job& job = *job_;
    ++job.helpers;
    lock.unlock();
    (void)std::fesetenv(&job.arithmetic);
    job.take_parts(thread);
    lock.lock();
    if (--job.helpers == 0) {  // the caller, whose the job is, may go on
      done_.notify_one();
    }
  }
}

}  // namespace penstock
