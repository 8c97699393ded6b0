#include "swap/update/thread_team.h"

#include <system_error>

namespace penstock {

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

void ThreadTeam::Job::take_parts() {
  for (std::size_t part = next++; part < parts; part = next++) {
    work(part);
  }
}

void ThreadTeam::run(std::size_t parts, unsigned threads,
                     const std::function<void(std::size_t part)>& work) {
  Job job{work, parts};
  std::unique_lock<std::mutex> busy(busy_, std::defer_lock);
  if (parts < 2 || threads < 2 || process_.elsewhere() || !busy.try_lock()) {
    job.take_parts();
    return;
  }
  begin_helpers(threads - 1);
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    seats_ = threads - 1;
  }
  wake_.notify_all();
  job.take_parts();
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
    --seats_;
    Job& job = *job_;
    ++job.helpers;
    lock.unlock();
    job.take_parts();
    lock.lock();
    if (--job.helpers == 0) {  // the caller, whose the job is, may go on
      done_.notify_one();
    }
  }
}

}  // namespace penstock
