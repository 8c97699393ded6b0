#include "bench/workload/block_feed.h"

#include <algorithm>
#include <limits>

namespace penstock::bench {
namespace {

constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

// As much as there is, at most: both are the user's.
constexpr std::uint64_t times(std::uint64_t value, std::uint64_t count) {
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  return value > kMax / count ? kMax : value * count;
}

}  // namespace

BlockFeed::BlockFeed(const Job& job, std::uint64_t file_bytes)
    : block_bytes_(job.raw_block_bytes()),
      file_blocks_(std::max<std::uint64_t>(file_bytes / block_bytes_, 1)),
      reads_percent_(!job.direction.writes ? 100U
                     : job.direction.reads ? job.rwmixread
                                           : 0U) {
  if (!job.time_based) {
    total_blocks_ = times(file_blocks_, job.loops);
    if (job.io_size) {
      // fio's: a loop goes through the file, and where that leaves a block of `io_size` there are
      // more loops; `io_size` ends the last one of all, and its last block is not cut off.
      const std::uint64_t loops =
          std::max<std::uint64_t>(job.loops, divide_up(*job.io_size / block_bytes_, file_blocks_));
      total_blocks_ = std::min(times(file_blocks_, loops),
                               divide_up(times(*job.io_size, job.loops), block_bytes_));
    }
  }
}

std::optional<Request> BlockFeed::next() {
  if (total_blocks_ != 0 && issued_ == total_blocks_) {
    return std::nullopt;
  }
  ++issued_;
  const bool reads = (reads_ + 1) * 100 <= reads_percent_ * (reads_ + writes_ + 1);
  std::uint64_t& place = reads ? reads_ : writes_;
  return Request{reads ? IoKind::kRead : IoKind::kWrite, place++ % file_blocks_ * block_bytes_,
                 block_bytes_};
}

}  // namespace penstock::bench
