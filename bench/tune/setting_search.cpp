#include "bench/tune/setting_search.h"

#include <algorithm>

#include "bench/pair/candidate_rounds.h"

namespace penstock::bench {
namespace {

// What nobody can tell apart in a search of seconds.
constexpr double kAsGood = 0.97;
constexpr double kFaster = 1.03;
// With fewer an interval says nothing.
constexpr std::size_t kTurnsMin = 3;

RoundLimits limits_of(const SettingSearch& search, std::size_t rounds) {
  RoundLimits limits{.rounds_max = rounds};
  limits.interrupted = search.interrupted;
  limits.is_enough = [&search](std::size_t) { return search.is_over && search.is_over(); };
  return limits;
}

class Searcher {
 public:
  Searcher(const std::vector<SettingAxis>& axes, const SettingPoint& present,
           const SettingSearch& search)
      : axes_(axes), present_(present), search_(search) {
    result_.best = present;
  }

  SettingSearchResult run() {
    for (std::size_t axis = 0; axis < axes_.size() && !ended_; ++axis) {
      look_at(axis);
    }
    confirm();
    return std::move(result_);
  }

 private:
  void look_at(std::size_t axis);
  std::vector<SettingPoint> points_on(std::size_t axis) const;
  std::optional<std::size_t> best_of(const std::vector<CandidateRounds>& rounds) const;
  std::optional<Advantage> compare(const SettingPoint& before, const SettingPoint& after) const;
  void confirm();

  const std::vector<SettingAxis>& axes_;
  const SettingPoint& present_;
  const SettingSearch& search_;
  SettingSearchResult result_;
  bool ended_ = false;
};

// The one that is there first, then the others as they are listed.
std::vector<SettingPoint> Searcher::points_on(std::size_t axis) const {
  std::vector<SettingPoint> points{result_.best};
  for (const std::uint64_t value : axes_[axis].values) {
    SettingPoint point = result_.best;
    point[axis] = value;
    if (value != result_.best[axis] && (!search_.is_allowed || search_.is_allowed(point))) {
      points.push_back(std::move(point));
    }
  }
  return points;
}

// Nothing: the present point has no figures. Its own number: nothing looks better.
std::optional<std::size_t> Searcher::best_of(const std::vector<CandidateRounds>& rounds) const {
  double best = 0;
  std::vector<double> ratios(rounds.size(), 0);
  const std::vector<double> there = rounds.front().bandwidths();
  if (there.empty()) {
    return std::nullopt;
  }
  for (std::size_t at = 0; at < rounds.size(); ++at) {
    const std::vector<double> here = rounds[at].bandwidths();
    if (rounds[at].refusal || here.size() != there.size()) {
      continue;
    }
    std::vector<double> beside;
    for (std::size_t round = 0; round < here.size(); ++round) {
      beside.push_back(here[round] / there[round]);
    }
    ratios[at] = median(beside);
    best = std::max(best, ratios[at]);
  }
  const auto found =
      std::ranges::find_if(ratios, [best](double ratio) { return ratio >= kAsGood * best; });
  return static_cast<std::size_t>(found - ratios.begin());
}

void Searcher::look_at(std::size_t axis) {
  const std::vector<SettingPoint> points = points_on(axis);
  if (points.size() == 1) {
    return;
  }
  const std::vector<CandidateRounds> rounds = run_candidate_rounds(
      points.size(), [&](std::size_t at) { return search_.run(points[at]); },
      limits_of(search_, search_.looks));
  if (rounds.front().refusal) {
    result_.present_refusal = rounds.front().refusal;
  }
  const std::optional<std::size_t> best = best_of(rounds);
  ended_ = !best || result_.present_refusal;
  if (ended_) {
    return;
  }
  if (result_.present_bytes_per_second == 0) {
    result_.present_bytes_per_second = median(rounds.front().bandwidths());
    result_.best_bytes_per_second = result_.present_bytes_per_second;
  }
  const SettingPoint& point = points[*best];
  AxisFinding finding{axis, result_.best[axis], result_.best[axis], point[axis]};
  if (*best != 0) {
    finding.advantage = compare(result_.best, point);
  }
  if (finding.advantage && finding.advantage->is_real()) {
    finding.after = point[axis];
    result_.best = point;
    result_.best_bytes_per_second = finding.advantage->after;
  }
  result_.findings.push_back(std::move(finding));
}

std::optional<Advantage> Searcher::compare(const SettingPoint& before,
                                           const SettingPoint& after) const {
  return compare_in_turns([&] { return search_.run(before); }, [&] { return search_.run(after); },
                          search_);
}

void Searcher::confirm() {
  std::vector<const AxisFinding*> changed;
  for (const AxisFinding& finding : result_.findings) {
    if (finding.after != finding.before) {
      changed.push_back(&finding);
    }
  }
  if (changed.size() == 1) {
    result_.whole = changed.front()->advantage;
  } else if (changed.size() > 1) {
    result_.whole = compare(present_, result_.best);
    if (result_.whole && result_.whole->turns < kTurnsMin) {
      result_.whole.reset();  // time was over: what each axis has shown stands
    }
    if (result_.whole && !result_.whole->is_real()) {
      result_.best = present_;
    }
  }
  if (result_.whole) {
    const bool stays = result_.best == present_;
    result_.present_bytes_per_second = result_.whole->before;
    result_.best_bytes_per_second = stays ? result_.whole->before : result_.whole->after;
  }
}

}  // namespace

bool Advantage::is_real() const noexcept {
  return turns >= kTurnsMin && ratio >= kFaster && confidence.low > 1;
}

SettingSearchResult search_settings(const std::vector<SettingAxis>& axes,
                                    const SettingPoint& present, const SettingSearch& search) {
  return Searcher(axes, present, search).run();
}

std::optional<Advantage> compare_in_turns(const std::function<Result<Leg>()>& before,
                                          const std::function<Result<Leg>()>& after,
                                          const SettingSearch& search) {
  const std::vector<CandidateRounds> rounds = run_candidate_rounds(
      2, [&](std::size_t at) { return at == 0 ? before() : after(); },
      limits_of(search, search.turns));
  const std::vector<double> first = rounds[0].bandwidths();
  const std::vector<double> second = rounds[1].bandwidths();
  if (rounds[0].refusal || rounds[1].refusal || first.size() < 2) {
    return std::nullopt;
  }
  std::vector<double> ratios;
  for (std::size_t turn = 0; turn < first.size(); ++turn) {
    ratios.push_back(second[turn] / first[turn]);
  }
  return Advantage{median(ratios), median_interval(ratios), ratios.size(), median(first),
                   median(second)};
}

}  // namespace penstock::bench
