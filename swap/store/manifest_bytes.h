#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "alloc/result.h"

namespace penstock {

/// A manifest as bytes that are read piece by piece, so that a file which claims gigabytes costs
/// no memory.
struct ManifestBytes {
  std::uint64_t size = 0;
  /// Fills all of `target` from `offset`; only asked for what lies below `size`. Errors: errno.
  std::function<Result<void>(std::uint64_t offset, std::span<std::byte> target)> read;
};

}  // namespace penstock
