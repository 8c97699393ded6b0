#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "alloc/result.h"
#include "bindings/archive/checkpoint_import.h"
#include "io/io_queue.h"
#include "swap/store/durable_store.h"

namespace penstock {

struct VerifyReport {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;  ///< of tensors, read
  /// By IntegrityLevel: how many are proved by no checksum, a sampled one, a full one.
  std::array<std::uint64_t, 3> by_level{};
  bool closed = false;  ///< DurableStore::was_closed()
  /// One for each bad tensor, with its name and path.
  std::vector<Error> bad;
};

/// Reads every byte of every tensor and compares identity and checksum. Bad tensors are no error:
/// they are in the report. Errors: no memory.
Result<VerifyReport> verify_store(const DurableStore& store, IoQueue& queue,
                                  const OnProgress& on_progress = {});

}  // namespace penstock
