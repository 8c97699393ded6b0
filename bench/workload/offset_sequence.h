#pragma once

#include <cstdint>
#include <span>

#include "bench/job/job.h"
#include "bench/workload/block_permutation.h"
#include "bench/workload/percent_deck.h"

namespace penstock::bench {

/// What one request moves within one file. `pass` counts how often the sequence has been through.
struct Place {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t pass = 0;

  bool operator==(const Place&) const = default;
};

/// Where one direction of a job goes next within a part of a file. In order: block behind block,
/// and from the begin again where the next one does not fit. At random: places of the largest
/// block, each once before any comes again, in another order in each pass. Sizes are dealt by the
/// shares of `bssplit=`. Same seed, same sequence.
class OffsetSequence {
 public:
  /// [begin, begin + bytes) must have room for the largest of `blocks`.
  OffsetSequence(std::uint64_t begin, std::uint64_t bytes, std::span<const BlockShare> blocks,
                 bool random, std::uint64_t seed);

  Place next();
  /// Bytes of one pass, where all blocks have one size; else of the whole part.
  std::uint64_t pass_bytes() const noexcept { return pass_bytes_; }

 private:
  Place next_in_order(std::uint64_t block_bytes);
  Place next_at_random(std::uint64_t block_bytes);

  std::uint64_t begin_;
  std::uint64_t bytes_;
  std::vector<std::uint64_t> block_bytes_;
  std::uint64_t largest_bytes_;
  std::uint64_t smallest_bytes_;
  std::uint64_t pass_bytes_;
  bool random_;
  std::uint64_t seed_;
  PercentDeck sizes_;
  BlockPermutation order_;
  std::uint64_t position_ = 0;  // bytes from begin_, or places of order_
  std::uint32_t pass_ = 0;
};

}  // namespace penstock::bench
