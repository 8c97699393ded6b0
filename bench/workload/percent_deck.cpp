#include "bench/workload/percent_deck.h"

#include <utility>

#include "alloc/check.h"

namespace penstock::bench {

PercentDeck::PercentDeck(std::span<const std::uint32_t> percents, std::uint64_t seed)
    : random_(seed) {
  std::uint32_t choices = 0;
  std::uint32_t only = 0;
  for (std::uint32_t choice = 0; choice < percents.size(); ++choice) {
    cards_.insert(cards_.end(), percents[choice], choice);
    choices += percents[choice] != 0 ? 1U : 0U;
    only = percents[choice] != 0 ? choice : only;
  }
  PENSTOCK_CHECK(choices != 0, "a deck of {} choices without a card", percents.size());
  if (choices == 1) {
    cards_.assign(1, only);
  }
  shuffle();
}

std::uint32_t PercentDeck::next() {
  if (dealt_ == cards_.size()) {
    dealt_ = 0;
    shuffle();
  }
  return cards_[dealt_++];
}

void PercentDeck::shuffle() {
  for (std::size_t left = cards_.size(); left > 1; --left) {
    std::swap(cards_[left - 1], cards_[random_.below(static_cast<std::uint32_t>(left))]);
  }
}

}  // namespace penstock::bench
