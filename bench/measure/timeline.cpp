#include "bench/measure/timeline.h"

#include <algorithm>

namespace penstock::bench {
namespace {

// How much of `amount`, spread evenly over `whole` nanoseconds, has happened after `passed` of
// them. Differences of it add up to `amount` without rounding.
std::uint64_t happened(std::uint64_t amount, std::uint64_t passed, std::uint64_t whole) {
  if (passed >= whole) {
    return amount;
  }
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(amount) * passed / whole);
}

}  // namespace

void Sample::absorb(const Sample& next) {
  read_bytes += next.read_bytes;
  write_bytes += next.write_bytes;
  stall_ns += next.stall_ns;
  pinned_bytes = std::max(pinned_bytes, next.pinned_bytes);
  live_bytes = std::max(live_bytes, next.live_bytes);
  pageable_bytes = std::max(pageable_bytes, next.pageable_bytes);
}

std::size_t Timeline::index_of_end(std::uint64_t at_ns) const noexcept {
  return at_ns == 0 ? 0 : (at_ns - 1) / interval_ns_;
}

void Timeline::add(const Sample& moment) {
  while (index_of_end(moment.at_ns) >= kIntervals) {
    double_interval();
  }
  const std::uint64_t whole = moment.at_ns - latest_.at_ns;
  const std::size_t last = index_of_end(moment.at_ns);
  std::uint64_t begin = latest_.at_ns;
  for (std::size_t index = std::min<std::size_t>(begin / interval_ns_, last); index <= last;
       ++index) {
    const std::uint64_t end = std::min((index + 1) * interval_ns_, moment.at_ns);
    const auto within = [&](std::uint64_t before, std::uint64_t after) {
      return happened(after - before, end - latest_.at_ns, whole) -
             (begin == latest_.at_ns ? 0 : happened(after - before, begin - latest_.at_ns, whole));
    };
    intervals_[index].absorb({0, within(latest_.read_bytes, moment.read_bytes),
                              within(latest_.write_bytes, moment.write_bytes),
                              within(latest_.stall_ns, moment.stall_ns), moment.pinned_bytes,
                              moment.live_bytes, moment.pageable_bytes});
    begin = end;
  }
  latest_ = moment;
}

std::vector<Sample> Timeline::samples() const {
  std::vector<Sample> samples;
  for (std::size_t index = 0; latest_.at_ns > 0 && index <= index_of_end(latest_.at_ns); ++index) {
    samples.push_back(intervals_[index]);
    samples.back().at_ns = std::min((index + 1) * interval_ns_, latest_.at_ns);
  }
  return samples;
}

void Timeline::double_interval() {
  for (std::size_t index = 0; index < kIntervals / 2; ++index) {
    Sample both = intervals_[2 * index];
    both.absorb(intervals_[2 * index + 1]);
    intervals_[index] = both;
  }
  std::fill(intervals_.begin() + kIntervals / 2, intervals_.end(), Sample{});
  interval_ns_ *= 2;
}

std::vector<Sample> merged(const std::vector<Sample>& one, const std::vector<Sample>& other) {
  const auto interval = [](const std::vector<Sample>& samples) {
    return samples.empty() ? 0 : samples.front().at_ns;
  };
  const bool turned = interval(one) < interval(other);
  std::vector<Sample> all = turned ? other : one;
  for (const Sample& sample : turned ? one : other) {
    const auto place = std::ranges::lower_bound(all, sample.at_ns, {}, &Sample::at_ns);
    if (place == all.end()) {
      all.push_back(sample);
    } else {
      place->absorb(sample);
    }
  }
  return all;
}

}  // namespace penstock::bench
