#include "bench/measure/bandwidth_meter.h"

#include <algorithm>

namespace penstock::bench {

void BandwidthMeter::add(std::uint64_t at_ns, std::uint64_t bytes) {
  std::uint64_t index = at_ns / interval_ns_;
  while (index >= kIntervals) {
    double_interval();
    index = at_ns / interval_ns_;
  }
  bytes_[index] += bytes;
  moved_ = true;
}

void BandwidthMeter::clear() {
  std::ranges::fill(bytes_, 0);
  interval_ns_ = kShortestNs;
  moved_ = false;
}

std::vector<BandwidthSample> BandwidthMeter::samples(std::uint64_t end_ns) const {
  std::vector<BandwidthSample> samples;
  for (std::size_t index = 0; moved_ && index < kIntervals; ++index) {
    const std::uint64_t begin_ns = index * interval_ns_;
    if (begin_ns >= end_ns && bytes_[index] == 0) {
      break;
    }
    const std::uint64_t whole_ns = begin_ns + interval_ns_;
    samples.push_back({end_ns > begin_ns ? std::min(whole_ns, end_ns) : whole_ns, bytes_[index]});
  }
  return samples;
}

void BandwidthMeter::double_interval() {
  for (std::size_t index = 0; index < kIntervals / 2; ++index) {
    bytes_[index] = bytes_[2 * index] + bytes_[2 * index + 1];
  }
  std::fill(bytes_.begin() + kIntervals / 2, bytes_.end(), 0);
  interval_ns_ *= 2;
}

}  // namespace penstock::bench
