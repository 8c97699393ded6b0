#include "bench/tune/advantage.h"

#include <vector>

namespace penstock::bench {
namespace {

constexpr double kFaster = 1.03;
constexpr std::size_t kTurnsMin = 3;  // with fewer an interval says nothing

}  // namespace

bool Advantage::is_real() const noexcept {
  return turns >= kTurnsMin && ratio >= kFaster && confidence.low > 1;
}

std::optional<Advantage> compare_in_turns(const std::function<Result<MeasuredRun>()>& before,
                                          const std::function<Result<MeasuredRun>()>& after,
                                          const RoundLimits& limits) {
  const std::vector<CandidateRounds> rounds =
      run_candidate_rounds(2, [&](std::size_t at) { return at == 0 ? before() : after(); }, limits);
  const std::vector<double> first = rounds[0].bandwidths();
  const std::vector<double> second = rounds[1].bandwidths();
  if (rounds[0].refusal || rounds[1].refusal || first.size() < 2) {
    return std::nullopt;
  }
  std::vector<double> ratios;
  for (std::size_t turn = 0; turn < first.size(); ++turn) {
    ratios.push_back(second[turn] / first[turn]);
  }
  return Advantage{median(ratios), median_interval(ratios), ratios.size(), median(second)};
}

}  // namespace penstock::bench
