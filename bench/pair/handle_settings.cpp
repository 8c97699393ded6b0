#include "bench/pair/handle_settings.h"

#include <nlohmann/json.hpp>

namespace penstock::bench {

std::string HandleSettings::json(bool with_pipeline) const {
  nlohmann::ordered_json settings{{"block_size", block_bytes},
                                  {"queue_depth", depth},
                                  {"single_submit", single_submit},
                                  {"overlap_events", true},
                                  {"intra_op_parallelism", threads}};
  if (with_pipeline) {
    settings["pipeline"] = pipelined;
  }
  return settings.dump();
}

std::vector<HandleSettings> handle_candidates(std::uint64_t block_bytes, std::uint32_t depth) {
  std::vector<HandleSettings> all;
  for (const std::uint32_t threads : {1U, 2U, 4U}) {
    all.push_back({block_bytes, depth, false, threads, false});
  }
  all.push_back({block_bytes, depth, true, 1, false});
  return all;
}

}  // namespace penstock::bench
