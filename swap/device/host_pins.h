#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "alloc/mutex.h"

namespace penstock {

/// Host memory that is pinned for the simulated devices of this process. As with a real runtime,
/// all of them reach what one has pinned, and nothing is pinned twice. Thread-safe.
class HostPins {
 public:
  static HostPins& of_process();

  /// False: some of it is pinned already.
  bool add(std::span<const std::byte> memory);
  void remove(std::span<const std::byte> memory);
  bool contain(std::span<const std::byte> memory) const;

 private:
  mutable Mutex mutex_;
  std::map<const std::byte*, std::uint64_t> ranges_
      PENSTOCK_GUARDED_BY(mutex_);  // begin -> bytes; apart from each other
};

}  // namespace penstock
