#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "alloc/result.h"

namespace penstock {

/// What has to be done with memory before a device or a ring may move bytes there by itself, and
/// undone before the memory goes: mlock, registering with io_uring, cudaHostRegister. Called from
/// any thread, once for each piece of memory; neither may throw.
struct PinHook {
  /// An error leaves the memory as it was. A hook without which all works, slower, may say so
  /// elsewhere and return none.
  std::function<Result<void>(std::span<std::byte> memory)> pin;
  /// With the very span of a pin() that succeeded.
  std::function<void(std::span<std::byte> memory)> unpin;
};

/// mlock and munlock.
PinHook memory_lock();

}  // namespace penstock
