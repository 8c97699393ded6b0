#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alloc/bytes.h"

namespace penstock::bench {

/// What DeepSpeed's aio handle, and so `aio` in its configuration, is given.
struct HandleSettings {
  std::uint64_t block_bytes = kMiB;
  std::uint32_t depth = 1;
  bool single_submit = false;
  std::uint32_t threads = 1;  ///< intra_op_parallelism
  bool pipelined = false;     ///< the optimizer's swapper reads and writes beside the step

  /// One JSON object, with `pipeline` where `with_pipeline`.
  std::string json(bool with_pipeline) const;
};

/// What is worth a trial for requests of that size and number: threads, and one request a call.
std::vector<HandleSettings> handle_candidates(std::uint64_t block_bytes, std::uint32_t depth);

}  // namespace penstock::bench
