#include "swap/device/host_pins.h"

#include <iterator>

namespace penstock {

HostPins& HostPins::of_process() {
  static HostPins pins;
  return pins;
}

bool HostPins::add(std::span<const std::byte> memory) {
  const MutexLock lock(mutex_);
  const auto behind = ranges_.lower_bound(memory.data() + memory.size());
  if (behind != ranges_.begin()) {
    const auto& [begin, bytes] = *std::prev(behind);
    if (begin + bytes > memory.data()) {
      return false;
    }
  }
  ranges_.emplace_hint(behind, memory.data(), memory.size());
  return true;
}

void HostPins::remove(std::span<const std::byte> memory) {
  const MutexLock lock(mutex_);
  ranges_.erase(memory.data());
}

bool HostPins::contain(std::span<const std::byte> memory) const {
  const MutexLock lock(mutex_);
  const auto behind = ranges_.upper_bound(memory.data());
  if (behind == ranges_.begin()) {
    return false;
  }
  const auto& [begin, bytes] = *std::prev(behind);
  return memory.data() + memory.size() <= begin + bytes;
}

}  // namespace penstock
