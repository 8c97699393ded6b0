#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "alloc/result.h"
#include "bench/pair/aio_settings.h"
#include "bench/pair/candidate_rounds.h"
#include "bench/pair/pair_statistics.h"

namespace penstock::bench {

/// How much faster one thing is than another, both run in turns.
struct Advantage {
  double ratio = 1;              ///< of bandwidths, the median of the turns
  Interval confidence = {1, 1};  ///< where it lies with 95 % confidence
  std::size_t turns = 0;
  double before = 0;  ///< bytes per second, medians
  double after = 0;

  /// Faster beyond the noise: by 3 % at the median of three turns or more, and the whole interval
  /// above 1.
  bool is_real() const noexcept;
};

/// When a search ends before its rounds are done.
struct SearchStops {
  std::function<bool()> is_over = {};      ///< asked before each round: begins no other
  std::function<bool()> interrupted = {};  ///< asked after each run
};
RoundLimits limits_of(const SearchStops& stops, std::size_t rounds);

/// Runs both in six turns. Nothing where one failed, or there were fewer than two turns.
std::optional<Advantage> compare_in_turns(const std::function<Result<MeasuredRun>()>& before,
                                          const std::function<Result<MeasuredRun>()>& after,
                                          const SearchStops& stops);

/// Settings worth a trial beside the present ones, cheapest first: queues of 8 and 32 requests of
/// the present size, on one thread and on four where there are so many CPUs.
std::vector<AioSettings> aio_trials(const AioSettings& present, std::uint32_t cpus);

struct AioSearchResult {
  AioSettings present;
  AioSettings best;   ///< the present ones, unless `tried` are faster beyond the noise
  AioSettings tried;  ///< what looked best; the present ones where nothing looked better
  std::optional<Advantage> advantage = {};  ///< of `tried` over the present ones
  bool was_run = false;                     ///< false: time was over before
  double present_bytes_per_second = 0;
  double best_bytes_per_second = 0;
  std::optional<Error> refusal = {};  ///< why the present ones do not run
};

/// Runs all in two rounds; what looks best (of those within 3 % of it the cheapest) then takes
/// turns with the present settings.
AioSearchResult search_aio(const AioSettings& present, const std::vector<AioSettings>& trials,
                           const std::function<Result<MeasuredRun>(const AioSettings&)>& run,
                           const SearchStops& stops);

}  // namespace penstock::bench
