#include "swap/engine/held_buffer_ledger.h"

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock {

HeldBufferLedger::Entry HeldBufferLedger::hold(std::uint64_t bytes, bool pageable) {
  Entry entry;
  entry.bytes_ = align_up(bytes, kBlockBytes);
  entry.pageable_ = pageable;
  const MutexLock lock(mutex_);
  Count& count = counts_[entry.bytes_];
  entry.ledger_ = shared_from_this();  // from here on its end is counted
  if (++count.now > count.most) {
    count.most = count.now;
    ++totals_.version;
  }
  bytes_ += entry.bytes_;
  totals_.bytes_max = std::max(totals_.bytes_max, bytes_);
  if (pageable) {
    pageable_bytes_ += entry.bytes_;
    totals_.pageable_bytes_max = std::max(totals_.pageable_bytes_max, pageable_bytes_);
    ++totals_.pageable_buffers;
  }
  return entry;
}

void HeldBufferLedger::end(std::uint64_t bytes, bool pageable) noexcept {
  const MutexLock lock(mutex_);
  --counts_.find(bytes)->second.now;
  bytes_ -= bytes;
  pageable_bytes_ -= pageable ? bytes : 0;
}

HeldBufferLedger::Totals HeldBufferLedger::totals() const {
  const MutexLock lock(mutex_);
  return totals_;
}

std::vector<HeldBuffers> HeldBufferLedger::most() const {
  const MutexLock lock(mutex_);
  std::vector<HeldBuffers> held;
  held.reserve(counts_.size());
  for (const auto& [bytes, count] : counts_) {
    held.push_back({bytes, count.most});
  }
  return held;
}

}  // namespace penstock
