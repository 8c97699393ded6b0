#include "bench/measure/course.h"

namespace penstock::bench {

void Course::add(const Sample& sample) {
  if (samples_.size() == kSamples) {
    apart_ns_ *= 2;
    for (std::size_t at = 0; at < kSamples / 2; ++at) {
      samples_[at] = samples_[2 * at + 1];  // the latest stays
    }
    samples_.resize(kSamples / 2);
  }
  samples_.push_back(sample);
}

}  // namespace penstock::bench
