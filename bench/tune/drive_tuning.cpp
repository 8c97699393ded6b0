#include "bench/tune/drive_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
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
// A search runs some values less than there are, and ends early where nothing is better.
constexpr double kShareOfTrials = 0.9;

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(value, 1, std::numeric_limits<std::uint16_t>::max()));
}

/// The present `aio` block of a configuration, within what can be run.
AioSettings aio_settings(const AioConfig& config) {
  return {std::clamp<std::uint64_t>(config.block_size, kBlockBytes, kGiB),
          narrow(config.queue_depth), narrow(config.intra_op_parallelism), config.overlap_events};
}

class Tuner {
 public:
  explicit Tuner(const TuningRequest& request)
      : request_(request),
        end_(Clock::now() + request.budget),
        watcher_([this](const std::stop_token& ended) { watch(ended); }) {
    const AioSettings present = aio_settings(request.setup.config.deepspeed.aio);
    result_.aio = {present, present, present};
    aio_trials_ = aio_trials(present, request.cpus);
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
  Result<MeasuredRun> keep(Result<MeasuredRun> run);
  Result<MeasuredRun> run_paths(std::span<const std::size_t> paths, double read_share,
                                std::string doing);
  Result<MeasuredRun> run_aio(const AioSettings& settings);
  SearchStops stops() const;
  Result<void> measure_paths();
  void choose_paths();

  const TuningRequest& request_;
  const Clock::time_point end_;
  RunControl control_;
  std::unique_ptr<DriveTrial> trial_;
  std::vector<AioSettings> aio_trials_;
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
  constexpr std::size_t kRoundsOfAio = 2;
  constexpr std::size_t kRunsOfTurns = 12;
  const std::size_t paths = request_.paths.size();
  return kRoundsOfPaths * 3 * paths + (paths > 1 ? kRunsOfTurns : 0) +
         kRoundsOfAio * (aio_trials_.size() + 1) + kRunsOfTurns;
}

void Tuner::show(std::string doing) {
  progress_.doing = std::move(doing);
  progress_.left =
      std::max(std::chrono::nanoseconds(end_ - Clock::now()), std::chrono::nanoseconds(0));
  if (request_.progress) {
    request_.progress(progress_);
  }
}

Result<MeasuredRun> Tuner::keep(Result<MeasuredRun> run) {
  if (run.has_value()) {
    ++result_.trials;
    progress_.bytes_per_second = run->bytes_per_second();
  }
  return run;
}

Result<MeasuredRun> Tuner::run_paths(std::span<const std::size_t> paths, double read_share,
                                     std::string doing) {
  show(std::move(doing));
  return keep(trial_->run_as_penstock(paths, request_.setup.config.penstock.engine,
                                      {read_share, result_.trial_length}));
}

Result<MeasuredRun> Tuner::run_aio(const AioSettings& settings) {
  show(fmt::format("aio: {} requests of {} KiB, {} thread{}", settings.depth,
                   settings.block_bytes / 1024, settings.threads,
                   settings.threads == 1 ? "" : "s"));
  return keep(trial_->run_as_deepspeed(result_.used.front(), settings,
                                       {request_.mix.read_share(), result_.trial_length}));
}

SearchStops Tuner::stops() const {
  return {.is_over = [this] { return Clock::now() >= end_; },
          .interrupted = [this] { return control_.stop.load(); }};
}

// Each path by itself: reading, writing, and as a step mixes them.
Result<void> Tuner::measure_paths() {
  const std::array<std::pair<double, double PathSpeed::*>, 3> loads{
      std::pair{1.0, &PathSpeed::read},
      {0.0, &PathSpeed::write},
      {request_.mix.read_share(), &PathSpeed::mixed}};
  const SearchStops stop = stops();
  RoundLimits limits = limits_of(stop, kRoundsOfPaths);
  // One round in any case: without it nothing is known.
  limits.is_enough = [&stop](std::size_t done) { return done > 0 && stop.is_over(); };
  const std::vector<CandidateRounds> rounds = run_candidate_rounds(
      loads.size() * request_.paths.size(),
      [&](std::size_t at) {
        const std::size_t path = at / loads.size();
        return run_paths({&path, 1}, loads[at % loads.size()].first,
                         fmt::format("{}", request_.paths[path]));
      },
      limits);
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
      [&] { return run_paths(result_.used, share, "all paths together"); }, stops());
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
    result_.aio = search_aio(
        result_.aio.present, aio_trials_,
        [this](const AioSettings& settings) { return run_aio(settings); }, stops());
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
