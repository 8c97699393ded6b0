#include "bench/benchmark.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "bench/measure/cpu_clock.h"
#include "bench/workload/workload_run.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookInterval{100};
constexpr int kLooksPerProgress = 5;

// One thread of one job, while it runs and after.
struct Member {
  const Job* job = nullptr;
  std::uint32_t thread = 0;
  RunControl control;
  std::atomic<bool> running{false};
  JobResult result;
};

// All jobs between two stonewalls, from the first to the last thread.
class Group {
 public:
  /// `first` is the place of the first of them in the whole list.
  Group(std::span<const Job> jobs, std::uint32_t number, std::size_t first);

  void run(const BenchmarkOptions& options);
  void stop();
  /// As fio: threads of neighbours that ask for group_reporting become one.
  void append_results(std::vector<JobResult>& results) const;
  void give_up();

 private:
  void work(Member& member);
  void run_prepared(WorkloadRun& run, Member& member);
  std::vector<std::jthread> start(const BenchmarkOptions& options);
  void watch(const BenchmarkOptions& options, const std::stop_token& ended);
  BenchmarkProgress progress() const;
  CpuTime measured_from(const CpuTime& prepared) const;
  void share_helpers_cpu(const CpuTime& process);

  std::vector<std::unique_ptr<Member>> members_;
  std::mutex laying_out_;  // one thread at a time: several may share a file
  std::barrier<> prepared_;
  std::barrier<> finished_;  // tearing down after it is not measured
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::atomic<Clock::time_point> begun_;
  std::uint64_t runtime_ns_ = 0;
};

std::ptrdiff_t count_threads(std::span<const Job> jobs) {
  std::ptrdiff_t threads = 0;
  for (const Job& job : jobs) {
    threads += job.numjobs;
  }
  return threads;
}

Group::Group(std::span<const Job> jobs, std::uint32_t number, std::size_t first)
    : prepared_(count_threads(jobs) + 1), finished_(count_threads(jobs) + 1) {
  for (const Job& job : jobs) {
    for (std::uint32_t thread = 0; thread < job.numjobs; ++thread) {
      auto member = std::make_unique<Member>();
      member->job = &job;
      member->thread = thread;
      member->result.name = job.name;
      member->result.group = number;
      member->result.job = first + static_cast<std::size_t>(&job - jobs.data());
      members_.push_back(std::move(member));
    }
    runtime_ns_ = std::max(runtime_ns_, job.runtime_ns.value_or(0) + job.ramp_time_ns);
  }
}

void Group::run(const BenchmarkOptions& options) {
  begun_ = Clock::now();
  std::vector<std::jthread> threads = start(options);
  prepared_.arrive_and_wait();
  begun_ = Clock::now();
  const CpuTime before = cpu_time(RUSAGE_SELF);
  finished_.arrive_and_wait();
  const CpuTime after = cpu_time(RUSAGE_SELF);
  threads.clear();  // joins
  share_helpers_cpu(after - measured_from(before));
}

/// A thread a member, and one that watches. A member whose thread the system refuses fails, and the
/// others do not wait for it.
std::vector<std::jthread> Group::start(const BenchmarkOptions& options) {
  std::vector<std::jthread> threads;
  threads.reserve(members_.size() + 1);
  const auto refused = [](const std::system_error& error) {
    return system_error(error.code().value(), "cannot start a thread of the benchmark");
  };
  std::optional<Error> unwatched;
  try {
    threads.emplace_back([this, &options](const std::stop_token& ended) { watch(options, ended); });
  } catch (const std::system_error& error) {
    unwatched = refused(error);  // Ctrl-C would be ignored
  }
  for (const std::unique_ptr<Member>& member : members_) {
    std::optional<Error> problem = unwatched;
    try {
      if (!problem) {
        threads.emplace_back([this, &member] { work(*member); });
      }
    } catch (const std::system_error& error) {
      problem = refused(error);
    }
    if (problem) {
      member->result.fail(*problem);
      prepared_.arrive_and_drop();
      finished_.arrive_and_drop();
    }
  }
  return threads;
}

// Threads that this one starts, those of engines, run there too.
Result<void> keep_to_cpus(const Job& job) {
  if (job.cpus_allowed &&
      ::pthread_setaffinity_np(::pthread_self(), sizeof(cpu_set_t), &*job.cpus_allowed) != 0) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("job {}: none of cpus_allowed={} is a CPU of this process", job.name,
                             job.given.at("cpus_allowed")));
  }
  return {};
}

void Group::work(Member& member) {
  const std::unique_ptr<WorkloadRun> run = make_workload_run(*member.job, member.thread);
  Result<void> prepared = keep_to_cpus(*member.job);
  if (prepared.has_value()) {
    const std::lock_guard lock(laying_out_);
    prepared = run->prepare(member.control);
  }
  prepared_.arrive_and_wait();
  if (prepared.has_error()) {
    member.result.fail(prepared.error());
  } else {
    run_prepared(*run, member);  // where it was stopped nothing moves, and files go with `unlink`
  }
  finished_.arrive_and_wait();
}

void Group::run_prepared(WorkloadRun& run, Member& member) {
  member.running = true;
  if (const Result<void> done = run.run(member.control, member.result); done.has_error()) {
    member.result.fail(done.error());
  }
  member.running = false;
}

void Group::watch(const BenchmarkOptions& options, const std::stop_token& ended) {
  std::unique_lock lock(mutex_);
  for (int looks = 1; !ended.stop_requested(); ++looks) {
    ended_.wait_for(lock, ended, kLookInterval, [] { return false; });
    if (options.interrupted && options.interrupted()) {
      stop();
    }
    if (options.progress && looks % kLooksPerProgress == 0 && !ended.stop_requested()) {
      options.progress(progress());
    }
  }
}

void Group::stop() {
  for (const std::unique_ptr<Member>& member : members_) {
    member->control.stop = true;
  }
}

void Group::give_up() {
  for (const std::unique_ptr<Member>& member : members_) {
    member->result.interrupted = true;
  }
}

BenchmarkProgress Group::progress() const {
  BenchmarkProgress progress;
  progress.elapsed_ns = static_cast<std::uint64_t>((Clock::now() - begun_.load()).count());
  double share = 0;
  for (const std::unique_ptr<Member>& member : members_) {
    const std::uint64_t read_bytes = member->control.read_bytes;
    const std::uint64_t write_bytes = member->control.write_bytes;
    progress.jobs_running += member->running ? 1U : 0U;
    progress.read_bytes += read_bytes;
    progress.write_bytes += write_bytes;
    if (const std::uint64_t total = member->control.total_bytes; total != 0) {
      share +=
          std::min(1.0, static_cast<double>(read_bytes + write_bytes) / static_cast<double>(total));
    } else if (runtime_ns_ != 0) {
      share += std::min(
          1.0, static_cast<double>(progress.elapsed_ns) / static_cast<double>(runtime_ns_));
    }
  }
  progress.share_done = share / static_cast<double>(members_.size());
  return progress;
}

// What the process had spent when the first of them began to measure: behind its `ramp_time`.
CpuTime Group::measured_from(const CpuTime& prepared) const {
  std::optional<CpuTime> first;
  for (const std::unique_ptr<Member>& member : members_) {
    const std::optional<CpuTime>& begun = member->result.process_before;
    if (begun && (!first || begun->seconds() < first->seconds())) {
      first = begun;
    }
  }
  return first.value_or(prepared);
}

// Threads of engines and of the kernel work for all: what the process has spent beyond the jobs'
// own threads goes to the jobs by the bytes that they have moved.
void Group::share_helpers_cpu(const CpuTime& process) {
  CpuTime helpers = process;
  double bytes = 0;
  for (const std::unique_ptr<Member>& member : members_) {
    const JobResult& result = member->result;
    helpers = helpers - result.cpu;
    bytes += static_cast<double>(result.read.io_bytes + result.write.io_bytes);
  }
  for (const std::unique_ptr<Member>& member : members_) {
    const std::optional<SimulatedDrive>& simulated = member->job->simulated;
    if (simulated && !simulated->real_time) {
      continue;  // in virtual time nothing is computed, and every figure is the same again
    }
    JobResult& result = member->result;
    const double share =
        bytes == 0 ? 0 : static_cast<double>(result.read.io_bytes + result.write.io_bytes) / bytes;
    result.cpu = result.cpu + CpuTime{share * std::max(helpers.user_seconds, 0.0),
                                      share * std::max(helpers.system_seconds, 0.0)};
  }
}

void Group::append_results(std::vector<JobResult>& results) const {
  bool first = true;
  for (const std::unique_ptr<Member>& member : members_) {
    if (!first && member->job->group_reporting) {
      results.back().merge(member->result);
    } else {
      results.push_back(member->result);
    }
    first = false;
  }
}

}  // namespace

Result<std::vector<JobResult>> run_benchmark(const std::vector<Job>& jobs,
                                             const BenchmarkOptions& options) {
  if (jobs.empty()) {
    return fault(Fault::kInvalidArgument, "there are no jobs to run");
  }
  std::vector<JobResult> results;
  std::uint32_t number = 0;
  for (std::size_t first = 0; first < jobs.size(); ++number) {
    std::size_t last = first + 1;
    while (last < jobs.size() && !jobs[last].stonewall) {
      ++last;
    }
    Group group(std::span<const Job>(jobs).subspan(first, last - first), number, first);
    if (options.interrupted && options.interrupted()) {
      group.give_up();
    } else {
      group.run(options);
    }
    group.append_results(results);
    first = last;
  }
  return results;
}

}  // namespace penstock::bench
