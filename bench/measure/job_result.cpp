#include "bench/measure/job_result.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace penstock::bench {
namespace {

// Both begin together; where the intervals of one are longer, a sample of the other counts in the
// one that it ends in.
void merge_samples(std::vector<BandwidthSample>& into, const std::vector<BandwidthSample>& from) {
  const auto interval = [](const std::vector<BandwidthSample>& samples) {
    return samples.empty() ? 0 : samples.front().at_ns;
  };
  if (interval(into) < interval(from)) {
    std::vector<BandwidthSample> longer = from;
    merge_samples(longer, into);
    into = std::move(longer);
    return;
  }
  for (const BandwidthSample& sample : from) {
    auto place = std::ranges::lower_bound(into, sample.at_ns, {}, &BandwidthSample::at_ns);
    if (place == into.end()) {
      into.push_back(sample);
    } else {
      place->bytes += sample.bytes;
    }
  }
}

}  // namespace

void DirectionResult::merge(const DirectionResult& other) {
  io_bytes += other.io_bytes;
  total_ios += other.total_ios;
  short_ios += other.short_ios;
  runtime_ns = std::max(runtime_ns, other.runtime_ns);
  clat.merge(other.clat);
  merge_samples(bandwidth, other.bandwidth);
}

void JobResult::fail(const Error& why) {
  error = why.system_errno() != 0 ? why.system_errno() : EINVAL;
  error_message = why.message;
}

Error JobResult::failure() const {
  return {std::error_code(error, std::generic_category()), error_message, {}, {}};
}

void JobResult::merge(const JobResult& other) {
  threads += other.threads;
  if (error == 0 && error_message.empty()) {
    error = other.error;
    error_message = other.error_message;
  }
  interrupted = interrupted || other.interrupted;
  read.merge(other.read);
  write.merge(other.write);
  elapsed_ns = std::max(elapsed_ns, other.elapsed_ns);
  user_seconds += other.user_seconds;
  system_seconds += other.system_seconds;
}

}  // namespace penstock::bench
