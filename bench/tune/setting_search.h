#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/pair/leg.h"
#include "bench/pair/pair_statistics.h"

namespace penstock::bench {

/// One of the numbers that are searched, with the values that are tried, cheapest first.
struct SettingAxis {
  std::string name;
  std::vector<std::uint64_t> values;
};

/// A value for each axis, in their order.
using SettingPoint = std::vector<std::uint64_t>;

/// How much faster one thing is than another, both run in turns.
struct Advantage {
  double ratio = 1;              ///< of bandwidths, the median of the turns
  Interval confidence = {1, 1};  ///< where it lies with 95 % confidence
  std::size_t turns = 0;
  double before = 0;  ///< bytes per second, medians
  double after = 0;

  /// Faster beyond the noise: by 3 % at the median, and the whole interval above 1.
  bool is_real() const noexcept;
};

/// What was found on one axis.
struct AxisFinding {
  std::size_t axis = 0;
  std::uint64_t before = 0;  ///< the value that was there when this axis' turn came
  std::uint64_t after = 0;   ///< the same where nothing was better
  std::uint64_t tried = 0;   ///< the one that looked best; `before` where none looked better
  /// Of `tried` over `before`; nothing where they are the same, or time was over.
  std::optional<Advantage> advantage = {};
};

struct SettingSearch {
  /// Called for points; its errors are of that point, which is then out.
  std::function<Result<Leg>(const SettingPoint&)> run;
  std::function<bool(const SettingPoint&)> is_allowed = {};  ///< empty: all are
  std::function<bool()> is_over = {};  ///< asked before each round: begins no other
  std::function<bool()> interrupted = {};
  std::size_t looks = 2;  ///< rounds over all values of an axis
  std::size_t turns = 6;  ///< of the best one and the one that is there
};

struct SettingSearchResult {
  SettingPoint best;
  std::vector<AxisFinding> findings;  ///< of the axes that were looked at, in their order
  /// Of all changes together over the present point, in turns with it; nothing where there are none
  /// or time was over.
  std::optional<Advantage> whole;
  double present_bytes_per_second = 0;  ///< 0: it was never run
  double best_bytes_per_second = 0;
  std::optional<Error> present_refusal;
};

/// Searches axis by axis, beginning at `present`: all values of one take turns, and the best of
/// them (of those within 3 % of it the cheapest) takes turns with the one that is there, which it
/// replaces only where it is faster beyond the noise. If several axes changed, the end takes turns
/// with the begin and must be faster beyond the noise too, else the begin stays. What does not run
/// is out; if the present point itself does not, it is told and nothing is searched.
SettingSearchResult search_settings(const std::vector<SettingAxis>& axes,
                                    const SettingPoint& present, const SettingSearch& search);

/// Runs both in turns. Nothing where one failed, or there were fewer than two turns.
std::optional<Advantage> compare_in_turns(const std::function<Result<Leg>()>& before,
                                          const std::function<Result<Leg>()>& after,
                                          const SettingSearch& search);

}  // namespace penstock::bench
