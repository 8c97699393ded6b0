#include "bench/workload/request_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "alloc/bytes.h"
#include "bench/workload/random_numbers.h"

namespace penstock::bench {
namespace {

constexpr std::uint64_t kFioBlockBytes = 4 * kKiB;

std::array<std::uint32_t, 2> percents_of(const Job& job) {
  if (job.direction.reads && job.direction.writes) {
    const std::uint32_t reads = std::min(job.rwmixread, 100U);
    return {reads, 100 - reads};
  }
  return {job.direction.writes ? 0U : 1U, job.direction.writes ? 1U : 0U};
}

// Threads differ, and so do directions and files: otherwise the writes of a mix would go where the
// reads are.
std::uint64_t seed_of(const Job& job, std::uint32_t thread, std::uint64_t what) {
  return mixed(mixed(job.randseed + thread) + what);
}

}  // namespace

std::vector<BlockShare> RequestSource::blocks_of(const Job& job, IoKind kind) {
  const std::vector<BlockShare>& blocks =
      kind == IoKind::kRead ? job.read_blocks : job.write_blocks;
  return blocks.empty() ? std::vector{BlockShare{kFioBlockBytes, 100}} : blocks;
}

std::uint64_t RequestSource::largest_block_bytes(const Job& job) {
  std::uint64_t largest = 0;
  for (const auto& [moves, kind] : {std::pair{job.direction.reads, IoKind::kRead},
                                    std::pair{job.direction.writes, IoKind::kWrite}}) {
    if (moves) {
      largest =
          std::max(largest, std::ranges::max(blocks_of(job, kind), {}, &BlockShare::bytes).bytes);
    }
  }
  return largest;
}

Result<std::unique_ptr<RequestSource>> RequestSource::make(const Job& job, std::uint32_t thread,
                                                           std::span<const FileRegion> regions) {
  const std::uint64_t block_bytes = largest_block_bytes(job);
  for (const FileRegion& region : regions) {
    if (region.bytes < block_bytes) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("{} bytes a file are less than one block of {} bytes: raise "
                               "`size` or lower `bs`",
                               region.bytes, block_bytes));
    }
  }
  return std::unique_ptr<RequestSource>(new RequestSource(job, thread, regions));
}

RequestSource::RequestSource(const Job& job, std::uint32_t thread,
                             std::span<const FileRegion> regions)
    : directions_(percents_of(job), seed_of(job, thread, 0)),
      reads_(make_way(job, IoKind::kRead, seed_of(job, thread, 1), regions)),
      writes_(make_way(job, IoKind::kWrite, seed_of(job, thread, 2), regions)) {
  if (job.time_based) {
    return;
  }
  // fio's: a mix in order moves `size`, with a last block that is not cut off; all others what
  // whole blocks there are.
  const bool mix_in_order = job.direction.reads && job.direction.writes && !job.direction.random;
  std::uint64_t loop_bytes = 0;
  for (std::size_t index = 0; index < regions.size(); ++index) {
    const Way& way = job.direction.reads ? reads_ : writes_;
    loop_bytes += mix_in_order ? regions[index].bytes : way.files[index].pass_bytes();
  }
  total_bytes_ = job.io_size.value_or(loop_bytes) * std::max(job.loops, 1U);
}

RequestSource::Way RequestSource::make_way(const Job& job, IoKind kind, std::uint64_t seed,
                                           std::span<const FileRegion> regions) const {
  Way way;
  if (kind == IoKind::kRead ? !job.direction.reads : !job.direction.writes) {
    return way;
  }
  const std::vector<BlockShare> blocks = blocks_of(job, kind);
  for (std::size_t index = 0; index < regions.size(); ++index) {
    way.files.emplace_back(regions[index].begin, regions[index].bytes, blocks, job.direction.random,
                           mixed(seed + index));
  }
  return way;
}

std::optional<Request> RequestSource::next() {
  if (total_bytes_ != 0 && issued_bytes_ >= total_bytes_) {
    return std::nullopt;
  }
  const IoKind kind = directions_.next() == 0 ? IoKind::kRead : IoKind::kWrite;
  Way& way = kind == IoKind::kRead ? reads_ : writes_;
  const Request request{kind, way.turn, way.files[way.turn].next()};
  way.turn = way.turn + 1 == way.files.size() ? 0 : way.turn + 1;
  issued_bytes_ += request.place.bytes;
  return request;
}

}  // namespace penstock::bench
