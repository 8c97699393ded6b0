#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/workload/random_numbers.h"

namespace penstock::bench {

/// Deals out choices by their shares, in an order that a seed decides: a deck with as many cards
/// for each choice as it has percent, shuffled each time it is used up. So the shares are exact
/// after every hundred cards, not only in the long run.
class PercentDeck {
 public:
  /// One number of cards for each choice; not all of them 0.
  PercentDeck(std::span<const std::uint32_t> percents, std::uint64_t seed);

  /// The index of a choice.
  std::uint32_t next();

 private:
  void shuffle();

  RandomNumbers random_;
  std::vector<std::uint32_t> cards_;
  std::size_t dealt_ = 0;
};

}  // namespace penstock::bench
