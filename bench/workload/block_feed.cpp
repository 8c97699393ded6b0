#include "bench/workload/block_feed.h"

#include <algorithm>

namespace penstock::bench {

BlockFeed::BlockFeed(const Job& job, std::uint64_t file_bytes)
    : block_bytes_(job.raw_block_bytes()),
      file_blocks_(std::max<std::uint64_t>(file_bytes / block_bytes_, 1)),
      reads_percent_(!job.direction.writes ? 100U
                     : job.direction.reads ? job.rwmixread
                                           : 0U) {
  if (!job.time_based) {
    // fio's: the last block of `io_size` is not cut off.
    const std::uint64_t blocks =
        job.io_size ? (*job.io_size + block_bytes_ - 1) / block_bytes_ : file_blocks_;
    total_blocks_ = blocks * job.loops;
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
