#include "swap/plan/pinned_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "alloc/bytes.h"
#include "swap/plan/slot_counts.h"

namespace penstock {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// The candidates of one group.
struct Pool {
  std::vector<std::uint64_t> sizes;  // descending, once all are in
  bool forced = false;
  bool outlier = false;
  std::uint32_t served_as = kNone;    // position among the classes in order of service
  std::uint32_t class_index = kNone;  // position among the classes by size

  std::uint32_t tensors() const noexcept { return static_cast<std::uint32_t>(sizes.size()); }
  bool is_lone() const noexcept { return outlier && !forced && sizes.size() <= kLoneTensorsMax; }
  // Smaller is served earlier.
  int rank() const noexcept { return forced ? 0 : outlier ? 2 : 1; }
};

class Layouter {
 public:
  Layouter(std::span<const PinnedCandidate> candidates, std::span<const SizeGroup> groups,
           std::uint64_t budget_bytes)
      : candidates_(candidates), groups_(groups), left_bytes_(budget_bytes) {
    layout_.fates.resize(candidates.size());
  }

  PinnedLayout lay_out() {
    fill_pools();
    choose_classes();
    place_lone();
    count();
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const std::uint32_t class_index = pools_[candidates_[i].group].class_index;
      if (class_index != kNone) {
        layout_.fates[i] = {Place::kClass, class_index};
      }
    }
    return std::move(layout_);
  }

 private:
  void fill_pools();
  void choose_classes();
  void place_lone();
  void count();
  void append_class(std::size_t group, std::uint32_t slots);

  std::span<const PinnedCandidate> candidates_;
  std::span<const SizeGroup> groups_;
  std::uint64_t left_bytes_;
  std::vector<Pool> pools_;          // by group
  std::vector<std::size_t> served_;  // groups that have become classes, in order of service
  PinnedLayout layout_;
};

void Layouter::fill_pools() {
  pools_.resize(groups_.size());
  for (const PinnedCandidate& candidate : candidates_) {
    Pool& pool = pools_[candidate.group];
    pool.sizes.push_back(candidate.bytes);
    pool.forced = pool.forced || candidate.forced;
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    pools_[g].outlier = groups_[g].outlier != OutlierReason::kNone;
    std::sort(pools_[g].sizes.begin(), pools_[g].sizes.end(), std::greater<>());
  }
}

void Layouter::choose_classes() {
  std::vector<std::size_t> order;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (!pools_[g].sizes.empty() && !pools_[g].is_lone()) {
      order.push_back(g);
    }
  }
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return std::pair(pools_[a].rank(), pools_[b].sizes.size()) <
           std::pair(pools_[b].rank(), pools_[a].sizes.size());
  });
  for (const std::size_t g : order) {
    if (groups_[g].slot_bytes <= left_bytes_) {
      left_bytes_ -= groups_[g].slot_bytes;
      pools_[g].served_as = static_cast<std::uint32_t>(served_.size());
      served_.push_back(g);
    }
  }
}

void Layouter::place_lone() {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const std::uint64_t padded = align_up(candidates_[i].bytes, kBlockBytes);
    if (pools_[candidates_[i].group].is_lone() && padded <= left_bytes_) {
      left_bytes_ -= padded;
      layout_.pinned_bytes += padded;
      layout_.peak_live_bytes += candidates_[i].bytes;
      layout_.fates[i].place = Place::kDedicated;
    }
  }
}

void Layouter::count() {
  std::vector<SlotDemand> demands;
  std::uint64_t budget = left_bytes_;
  for (const std::size_t g : served_) {
    demands.push_back({groups_[g].slot_bytes, pools_[g].tensors()});
    budget += groups_[g].slot_bytes;  // the one slot that was set aside
  }
  std::vector<std::uint32_t> order;
  order.reserve(candidates_.size());
  for (const PinnedCandidate& candidate : candidates_) {
    if (pools_[candidate.group].served_as != kNone) {
      order.push_back(pools_[candidate.group].served_as);
    }
  }
  const SlotCounts counts = count_slots(demands, order, budget);
  layout_.window_tensors = counts.window_tensors;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (pools_[g].served_as != kNone) {
      append_class(g, counts.slots[pools_[g].served_as]);
    }
  }
}

void Layouter::append_class(std::size_t group, std::uint32_t slots) {
  Pool& pool = pools_[group];
  std::uint64_t live = 0;
  for (std::uint32_t i = 0; i < slots; ++i) {
    live += pool.sizes[i];
  }
  PlacedClass placed;
  placed.slot_bytes = groups_[group].slot_bytes;
  placed.slots = slots;
  placed.tensors = pool.tensors();
  placed.waste_bytes = placed.slot_bytes * slots - live;
  if (slots == pool.tensors()) {
    placed.why = "a slot for each";
  } else if (layout_.window_tensors > 1) {
    placed.why = fmt::format("any {} tensors that follow one another in use have a slot each",
                             layout_.window_tensors);
  } else {
    placed.why = "max_pinned_bytes has no room for two tensors that follow one another";
  }
  layout_.pinned_bytes += placed.slot_bytes * slots;
  layout_.peak_live_bytes += live;
  pool.class_index = static_cast<std::uint32_t>(layout_.classes.size());
  layout_.classes.push_back(std::move(placed));
}

}  // namespace

PinnedLayout lay_out_pinned(std::span<const PinnedCandidate> candidates,
                            std::span<const SizeGroup> groups, std::uint64_t budget_bytes) {
  return Layouter(candidates, groups, budget_bytes).lay_out();
}

}  // namespace penstock
