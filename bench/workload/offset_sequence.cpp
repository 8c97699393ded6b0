#include "bench/workload/offset_sequence.h"

#include <algorithm>
#include <iterator>

#include "alloc/check.h"
#include "bench/workload/random_numbers.h"

namespace penstock::bench {
namespace {

std::vector<std::uint64_t> sizes_of(std::span<const BlockShare> blocks) {
  std::vector<std::uint64_t> sizes;
  std::ranges::transform(blocks, std::back_inserter(sizes), &BlockShare::bytes);
  return sizes;
}

std::vector<std::uint32_t> percents_of(std::span<const BlockShare> blocks) {
  std::vector<std::uint32_t> percents;
  std::ranges::transform(blocks, std::back_inserter(percents), &BlockShare::percent);
  return percents;
}

}  // namespace

OffsetSequence::OffsetSequence(std::uint64_t begin, std::uint64_t bytes,
                               std::span<const BlockShare> blocks, bool random, std::uint64_t seed)
    : begin_(begin),
      bytes_(bytes),
      block_bytes_(sizes_of(blocks)),
      largest_bytes_(std::ranges::max(block_bytes_)),
      smallest_bytes_(std::ranges::min(block_bytes_)),
      pass_bytes_(blocks.size() == 1 ? bytes / largest_bytes_ * largest_bytes_ : bytes),
      random_(random),
      seed_(seed),
      sizes_(percents_of(blocks), mixed(seed)),
      order_(std::max<std::uint64_t>(bytes / largest_bytes_, 1), seed) {
  PENSTOCK_CHECK(smallest_bytes_ != 0 && largest_bytes_ <= bytes, "blocks of {}..{} in {} bytes",
                 smallest_bytes_, largest_bytes_, bytes);
}

Place OffsetSequence::next() {
  const std::uint64_t block_bytes = block_bytes_[sizes_.next()];
  return random_ ? next_at_random(block_bytes) : next_in_order(block_bytes);
}

// At the end of the part a block that does not fit makes way for the smallest, as with fio.
Place OffsetSequence::next_in_order(std::uint64_t block_bytes) {
  if (bytes_ - position_ < smallest_bytes_) {
    position_ = 0;
    ++pass_;
  }
  const std::uint64_t fitting = bytes_ - position_ < block_bytes ? smallest_bytes_ : block_bytes;
  const Place place{begin_ + position_, fitting, pass_};
  position_ += fitting;
  return place;
}

Place OffsetSequence::next_at_random(std::uint64_t block_bytes) {
  if (position_ == order_.count()) {
    position_ = 0;
    ++pass_;
    order_ = BlockPermutation(order_.count(), mixed(seed_ + pass_));
  }
  return {begin_ + order_.at(position_++) * largest_bytes_, block_bytes, pass_};
}

}  // namespace penstock::bench
