#include "bench/tune/drive_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <ranges>
#include <span>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "bench/benchmark.h"
#include "bench/pair/measured_run.h"
#include "bench/pair/rounds.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRoundsOfPaths = 3;
constexpr std::size_t kTurns = 6;
constexpr double kFaster = 1.03;
constexpr std::size_t kTurnsMin = 3;        // with fewer an interval says nothing
constexpr std::size_t kTurnsToCompare = 2;  // whatever the time
// A round that has begun is ended.
constexpr double kShareOfTrials = 0.9;
constexpr std::chrono::nanoseconds kTrialMin = std::chrono::milliseconds(10);

Error cannot_measure(const std::string& path, Error error) {
  error.message = fmt::format("cannot measure {}: {}", path, error.message);
  error.path = path;
  return error;
}

/// `job` is called after its path. Its file is open here and has no name that a user could look at.
Error job_failure(const Job& job, const JobResult& result) {
  Error error = result.failure();
  if (const std::size_t at = error.message.find(job.filename); at != std::string::npos) {
    error.message.replace(at, job.filename.size(), "the file to measure with");
  }
  return cannot_measure(job.name, std::move(error));
}

/// A file without a name, and room for it.
Result<File> make_file(const std::string& path, std::uint64_t bytes) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return system_error(error ? error.value() : ENOTDIR, "it is no directory", path);
  }
  Result<File> file = File::create_scratch(path);
  PENSTOCK_TRY(file);
  if (!file->direct().supported) {
    return system_error(EINVAL,
                        fmt::format("it has no direct I/O ({}), which stock DeepSpeed's swapping "
                                    "needs",
                                    file->direct().reason),
                        path);
  }
  PENSTOCK_TRY(file->reserve(0, bytes));
  return file;
}

class Tuner {
 public:
  explicit Tuner(const TuningRequest& request)
      : request_(request), end_(Clock::now() + request.budget) {
    for (const std::string& path : request.paths) {
      result_.paths.push_back({path});
      result_.used.push_back(result_.used.size());
    }
  }

  Result<DriveTuning> run();

 private:
  bool interrupted() {
    result_.interrupted = result_.interrupted || (request_.interrupted && request_.interrupted());
    return result_.interrupted;
  }
  std::chrono::nanoseconds left() const {
    return std::max<std::chrono::nanoseconds>(end_ - Clock::now(), std::chrono::nanoseconds(0));
  }
  void show(std::string doing);
  Result<void> lay_out();
  Result<MeasuredRun> run_job(std::span<const std::size_t> paths, Job job);
  Result<MeasuredRun> run_trial(std::span<const std::size_t> paths, double read_share,
                                std::string doing);
  RoundLimits limits(std::size_t rounds_max, std::size_t rounds_min);
  Result<void> measure_paths();
  void choose_paths();
  std::optional<Advantage> compare_together();

  const TuningRequest& request_;
  const Clock::time_point end_;
  std::vector<File> files_;  // one a path
  DriveTuning result_;
  TuningProgress progress_;
};

void Tuner::show(std::string doing) {
  progress_.doing = std::move(doing);
  progress_.left = left();
  if (request_.progress) {
    request_.progress(progress_);
  }
}

/// Files with contents; how long a trial takes follows from the time that is left then.
Result<void> Tuner::lay_out() {
  show("laying out files");
  for (const std::string& path : request_.paths) {
    Result<File> file = make_file(path, request_.file_bytes);
    if (file.has_error()) {
      return cannot_measure(path, file.error());
    }
    files_.push_back(std::move(*file));
  }
  Job reads_a_block;
  reads_a_block.io_size = request_.mix.request_bytes();
  PENSTOCK_TRY(run_job(result_.used, reads_a_block));
  const std::size_t paths = files_.size();
  const std::size_t trials = kRoundsOfPaths * 3 * paths + (paths > 1 ? 2 * kTurns : 0);
  const auto share = std::chrono::duration_cast<std::chrono::nanoseconds>(
      left() * kShareOfTrials / static_cast<double>(trials));
  result_.trial_length = std::max(share, kTrialMin);
  return {};
}

/// As our engine does: registered memory and one queue a drive that never runs dry. Several paths
/// at the same time, each for itself.
Result<MeasuredRun> Tuner::run_job(std::span<const std::size_t> paths, Job job) {
  job.engine = request_.engine;
  job.iodepth = IoEngineOptions{}.depth;
  job.block_bytes = request_.mix.request_bytes();
  job.size = request_.file_bytes;
  job.direct = true;
  std::vector<Job> jobs;
  for (const std::size_t path : paths) {
    jobs.push_back(job);
    jobs.back().name = request_.paths[path];
    jobs.back().filename = fmt::format("/proc/self/fd/{}", files_[path].fd());
  }
  const Result<std::vector<JobResult>> results =
      run_benchmark(jobs, {.interrupted = request_.interrupted});
  PENSTOCK_TRY(results);
  const auto failed =
      std::ranges::find_if(*results, [](const JobResult& one) { return one.error != 0; });
  if (failed != results->end()) {
    return job_failure(jobs[failed->job], *failed);
  }
  JobResult all = results->front();
  for (const JobResult& one : *results | std::views::drop(1)) {
    all.merge(one);
  }
  return all.interrupted ? Result<MeasuredRun>(system_error(ECANCELED, "interrupted"))
                         : Result<MeasuredRun>(measured_run(all));
}

Result<MeasuredRun> Tuner::run_trial(std::span<const std::size_t> paths, double read_share,
                                     std::string doing) {
  show(std::move(doing));
  Job job;
  job.direction = {.reads = read_share > 0, .writes = read_share < 1};
  job.rwmixread = static_cast<std::uint32_t>(std::lround(read_share * 100));
  job.time_based = true;
  job.runtime_ns = static_cast<std::uint64_t>(result_.trial_length.count());
  Result<MeasuredRun> run = run_job(paths, job);
  if (run.has_value()) {
    ++result_.trials;
    progress_.bytes_per_second = run->bytes_per_second();
  }
  return run;
}

RoundLimits Tuner::limits(std::size_t rounds_max, std::size_t rounds_min) {
  return {.rounds_max = rounds_max,
          .rounds_min = rounds_min,
          .end = end_,
          .failure_ends = true,
          .interrupted = [this] { return interrupted(); }};
}

// Each path by itself: reading, writing, and as a step mixes them.
Result<void> Tuner::measure_paths() {
  const std::array<std::pair<double, double PathSpeed::*>, 3> loads{
      std::pair{1.0, &PathSpeed::read},
      {0.0, &PathSpeed::write},
      {request_.mix.read_share(), &PathSpeed::mixed}};
  const std::vector<CandidateRounds> rounds = run_rounds(
      loads.size() * request_.paths.size(),
      [&](std::size_t at) {
        const std::size_t path = at / loads.size();
        return run_trial({&path, 1}, loads[at % loads.size()].first, request_.paths[path]);
      },
      limits(kRoundsOfPaths, 1));  // without one nothing is known
  for (std::size_t at = 0; at < rounds.size(); ++at) {
    if (rounds[at].refusal) {
      return *rounds[at].refusal;
    }
    const std::vector<double> bandwidths = rounds[at].bandwidths();
    result_.paths[at / loads.size()].*loads[at % loads.size()].second =
        bandwidths.empty() ? 0 : median(bandwidths);
  }
  return {};
}

// Fastest first; beside the first one only those that make it faster.
void Tuner::choose_paths() {
  std::ranges::stable_sort(result_.used, std::ranges::greater{},
                           [this](std::size_t path) { return result_.paths[path].mixed; });
  if (result_.used.size() == 1 || !result_.measured()) {
    return;
  }
  result_.together = compare_together();
  if (!result_.together || !result_.together->is_real()) {
    result_.used.resize(1);
  }
}

// Nothing where one failed, or there were fewer than two turns.
std::optional<Advantage> Tuner::compare_together() {
  const double share = request_.mix.read_share();
  const std::vector<CandidateRounds> rounds = run_rounds(
      2,
      [&](std::size_t at) {
        return at == 0 ? run_trial({result_.used.data(), 1}, share, "the fastest path")
                       : run_trial(result_.used, share, "all paths together");
      },
      limits(kTurns, kTurnsToCompare));
  const std::vector<double> all = rounds[1].bandwidths();
  if (rounds[0].refusal || rounds[1].refusal || all.size() < kTurnsToCompare) {
    return std::nullopt;
  }
  const PairRatios ratios = compare_runs(rounds[1].runs, rounds[0].runs).bandwidth;
  return Advantage{ratios.median, {ratios.low, ratios.high}, ratios.all.size(), median(all)};
}

Result<DriveTuning> Tuner::run() {
  Result<void> done = lay_out();
  if (done.has_value()) {
    done = measure_paths();
    choose_paths();
  }
  if (done.has_error() && !interrupted()) {
    return done.error();
  }
  return std::move(result_);
}

}  // namespace

bool Advantage::is_real() const noexcept {
  return turns >= kTurnsMin && ratio >= kFaster && confidence.low > 1;
}

double DriveTuning::used_bytes_per_second() const noexcept {
  if (!measured()) {
    return 0;
  }
  return used.size() > 1 && together ? together->after : paths[used.front()].mixed;
}

Result<DriveTuning> tune_drives(const TuningRequest& request) {
  PENSTOCK_CHECK(!request.paths.empty(), "no path to tune");
  PENSTOCK_CHECK(request.mix.tensors > 0, "no tensor to move");
  PENSTOCK_CHECK(request.file_bytes >= request.mix.request_bytes(), "no room for a request");
  return Tuner(request).run();
}

}  // namespace penstock::bench
