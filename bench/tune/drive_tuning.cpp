#include "bench/tune/drive_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "bench/pair/candidate_rounds.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookInterval{50};
constexpr std::size_t kRoundsOfPaths = 3;
constexpr std::size_t kTurns = 6;
// A round that has begun is ended.
constexpr double kShareOfTrials = 0.9;

class Tuner {
 public:
  explicit Tuner(const TuningRequest& request)
      : request_(request),
        end_(Clock::now() + request.budget),
        watcher_([this](const std::stop_token& ended) { watch(ended); }) {
    for (const std::string& path : request.paths) {
      result_.paths.push_back({path});
      result_.used.push_back(result_.used.size());
    }
  }

  Result<DriveTuning> run();

 private:
  void watch(const std::stop_token& ended);
  std::size_t trials_planned() const;
  void show(std::string doing);
  Result<MeasuredRun> run_paths(std::span<const std::size_t> paths, double read_share,
                                std::string doing);
  RoundLimits limits(std::size_t rounds) const;
  Result<void> measure_paths();
  void choose_paths();

  const TuningRequest& request_;
  const Clock::time_point end_;
  RunControl control_;
  std::unique_ptr<DriveTrial> trial_;
  DriveTuning result_;
  TuningProgress progress_;
  std::jthread watcher_;  // last: it uses what is above
};

void Tuner::watch(const std::stop_token& ended) {
  while (!ended.stop_requested() && !control_.stop) {
    control_.stop = request_.interrupted && request_.interrupted();
    std::this_thread::sleep_for(kLookInterval);
  }
}

std::size_t Tuner::trials_planned() const {
  const std::size_t paths = request_.paths.size();
  return kRoundsOfPaths * 3 * paths + (paths > 1 ? 2 * kTurns : 0);
}

void Tuner::show(std::string doing) {
  progress_.doing = std::move(doing);
  progress_.left =
      std::max(std::chrono::nanoseconds(end_ - Clock::now()), std::chrono::nanoseconds(0));
  if (request_.progress) {
    request_.progress(progress_);
  }
}

Result<MeasuredRun> Tuner::run_paths(std::span<const std::size_t> paths, double read_share,
                                     std::string doing) {
  show(std::move(doing));
  Result<MeasuredRun> run = trial_->run(paths, request_.engine, {read_share, result_.trial_length});
  if (run.has_value()) {
    ++result_.trials;
    progress_.bytes_per_second = run->bytes_per_second();
  }
  return run;
}

RoundLimits Tuner::limits(std::size_t rounds) const {
  return {.rounds_max = rounds,
          .is_enough = [this](std::size_t) { return Clock::now() >= end_; },
          .interrupted = [this] { return control_.stop.load(); }};
}

// Each path by itself: reading, writing, and as a step mixes them.
Result<void> Tuner::measure_paths() {
  const std::array<std::pair<double, double PathSpeed::*>, 3> loads{
      std::pair{1.0, &PathSpeed::read},
      {0.0, &PathSpeed::write},
      {request_.mix.read_share(), &PathSpeed::mixed}};
  RoundLimits until = limits(kRoundsOfPaths);
  // One round in any case: without it nothing is known.
  until.is_enough = [this](std::size_t done) { return done > 0 && Clock::now() >= end_; };
  const std::vector<CandidateRounds> rounds = run_candidate_rounds(
      loads.size() * request_.paths.size(),
      [&](std::size_t at) {
        const std::size_t path = at / loads.size();
        return run_paths({&path, 1}, loads[at % loads.size()].first,
                         fmt::format("{}", request_.paths[path]));
      },
      until);
  for (std::size_t at = 0; at < rounds.size(); ++at) {
    if (!rounds[at].is_left()) {
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
  const double share = request_.mix.read_share();
  result_.together = compare_in_turns(
      [&] { return run_paths({result_.used.data(), 1}, share, "the fastest path"); },
      [&] { return run_paths(result_.used, share, "all paths together"); }, limits(kTurns));
  if (!result_.together || !result_.together->is_real()) {
    result_.used.resize(1);
  }
}

Result<DriveTuning> Tuner::run() {
  show("laying out files");
  Result<std::unique_ptr<DriveTrial>> trial =
      DriveTrial::prepare(request_.mix, request_.paths, control_);
  if (trial.has_value()) {
    trial_ = std::move(*trial);
    const std::chrono::duration<double, std::nano> left = end_ - Clock::now();
    result_.trial_length = std::chrono::nanoseconds(static_cast<std::int64_t>(
        std::max(0.0, left.count()) * kShareOfTrials / static_cast<double>(trials_planned())));
    const Result<void> measured = measure_paths();
    if (measured.has_error() && !control_.stop) {
      return measured.error();
    }
    choose_paths();
  } else if (!control_.stop) {
    return trial.error();
  }
  result_.interrupted = control_.stop;
  return std::move(result_);
}

}  // namespace

double DriveTuning::used_bytes_per_second() const noexcept {
  if (!measured()) {
    return 0;
  }
  return used.size() > 1 && together ? together->after : paths[used.front()].mixed;
}

Result<DriveTuning> tune_drives(const TuningRequest& request) {
  PENSTOCK_CHECK(!request.paths.empty(), "no path to tune");
  PENSTOCK_CHECK(!request.mix.tensors.empty(), "no tensor to move");
  return Tuner(request).run();
}

}  // namespace penstock::bench
