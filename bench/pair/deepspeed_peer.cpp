#include "bench/pair/deepspeed_peer.h"

#include <fmt/format.h>

namespace penstock::bench {

std::string DeepSpeedPeer::describe(std::size_t candidate) const {
  return fmt::format("{} {}", parts_.what, parts_.settings[candidate]);
}

Result<MeasuredRun> DeepSpeedPeer::run(std::size_t candidate, std::uint64_t io_size) {
  return parts_.process.run_once(fmt::format(R"({{"settings": {}, "io_size": {}}})",
                                             parts_.settings[candidate],
                                             io_size != 0 ? io_size : parts_.io_size));
}

}  // namespace penstock::bench
