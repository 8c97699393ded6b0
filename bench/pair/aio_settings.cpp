#include "bench/pair/aio_settings.h"

#include <fmt/format.h>

namespace penstock::bench {

std::string AioSettings::members() const {
  return fmt::format(
      R"("block_size":{},"queue_depth":{},"single_submit":{},"overlap_events":{},"intra_op_parallelism":{})",
      block_bytes, depth, single_submit, overlap_events, threads);
}

std::vector<AioSettings> aio_candidates(std::uint64_t block_bytes, std::uint32_t depth) {
  std::vector<AioSettings> all;
  for (const std::uint32_t threads : {1U, 2U, 4U}) {
    all.push_back({.block_bytes = block_bytes, .depth = depth, .threads = threads});
  }
  all.push_back({.block_bytes = block_bytes, .depth = depth, .single_submit = true});
  return all;
}

}  // namespace penstock::bench
