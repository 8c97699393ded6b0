#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alloc/bytes.h"

namespace penstock::bench {

/// What DeepSpeed's aio handle, and so `aio` in its configuration, is given; its defaults.
struct AioSettings {
  std::uint64_t block_bytes = kMiB;
  std::uint32_t depth = 8;
  std::uint32_t threads = 1;  ///< intra_op_parallelism
  bool overlap_events = true;
  bool single_submit = false;  ///< one request a call of the kernel

  /// As the members of DeepSpeed's block, without braces around them.
  std::string members() const;

  bool operator==(const AioSettings&) const = default;
};

/// What is worth a trial for requests of that size and number: threads, and one request a call.
std::vector<AioSettings> aio_candidates(std::uint64_t block_bytes, std::uint32_t depth);

}  // namespace penstock::bench
