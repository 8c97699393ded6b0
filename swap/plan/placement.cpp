#include "swap/plan/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "alloc/bytes.h"
#include "swap/plan/pinned_layout.h"
#include "swap/plan/residents.h"
#include "swap/plan/rule_demand.h"
#include "swap/plan/size_group.h"

namespace penstock {
namespace {

class Planner {
 public:
  Planner(const std::vector<PlanTensor>& tensors, const EngineConfig& config, RuleDemand demand)
      : tensors_(tensors), config_(config), demand_(std::move(demand)) {
    placement_.budgets = demand_.budgets;
    placement_.tensors.reserve(tensors_.size());
    for (const PlanTensor& tensor : tensors_) {
      placement_.tensors.push_back({tensor.name, tensor.bytes, Place::kClass, std::nullopt});
    }
  }

  Result<Placement> plan() {
    place_by_rule();
    groups_ = group_sizes(tensors_, demand_.rules, config_, budgets().max_pinned_bytes);
    group_whys_.resize(groups_.size());
    keep_residents();
    PENSTOCK_TRY(hold_staging());
    pin();
    add_up();
    return std::move(placement_);
  }

 private:
  void place_by_rule();
  void keep_residents();
  void keep(const std::vector<std::size_t>& candidates, std::uint64_t& budget);
  Result<void> hold_staging();
  void pin();
  void add_up();
  std::string why_outlier(std::size_t i) const;
  std::string why_pinned(std::size_t i, const PinnedFate& fate) const;

  void set(std::size_t i, Place place, std::uint32_t why);
  void set(std::size_t i, Place place, const std::string& why) { set(i, place, index_of(why)); }
  std::uint32_t index_of(const std::string& why);
  template <class MakeWhy>
  void set_by_group(std::size_t i, Place place, const MakeWhy& make_why);
  const SizeGroup& group(std::size_t i) const {
    return groups_[group_of(groups_, tensors_[i].bytes)];
  }
  const Budgets& budgets() const { return placement_.budgets; }

  const std::vector<PlanTensor>& tensors_;
  const EngineConfig& config_;
  RuleDemand demand_;
  std::vector<SizeGroup> groups_;  // of all tensors whose size matters
  std::vector<std::size_t> open_;  // tensors without a place, in order of use
  Placement placement_;
  std::unordered_map<std::string, std::uint32_t> whys_;     // of placement_, by text
  std::vector<std::map<Place, std::uint32_t>> group_whys_;  // the same, by group and place
};

void Planner::set(std::size_t i, Place place, std::uint32_t why) {
  placement_.tensors[i].place = place;
  placement_.tensors[i].why = why;
}

// Into placement_.whys.
std::uint32_t Planner::index_of(const std::string& why) {
  const auto next = static_cast<std::uint32_t>(placement_.whys.size());
  const auto [known, is_new] = whys_.try_emplace(why, next);
  if (is_new) {
    placement_.whys.push_back(why);
  }
  return known->second;
}

// Where the text is the same for all of a group that have the same place: it is made once.
template <class MakeWhy>
void Planner::set_by_group(std::size_t i, Place place, const MakeWhy& make_why) {
  std::uint32_t& known = group_whys_[group_of(groups_, tensors_[i].bytes)][place];
  if (known == 0) {
    known = index_of(make_why());
  }
  set(i, place, known);
}

void Planner::place_by_rule() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const PlanTensor& tensor = tensors_[i];
    if (!tensor.swappable) {
      set(i, tensor.place_unswapped,
          tensor.why_unswapped ? *tensor.why_unswapped : "too small to be worth I/O");
    } else if (tensor.bytes == 0) {
      set(i, Place::kRam, "has no bytes");
    } else if (is_grouped(tensor, demand_.rules[i])) {
      open_.push_back(i);
    } else {
      set(i, demand_.rules[i]->place, "rule " + demand_.rules[i]->text);
    }
  }
}

// Outliers first: a resident outlier also saves the pageable memory that it would be read into.
void Planner::keep_residents() {
  std::vector<std::size_t> outliers;
  std::vector<std::size_t> regular;
  for (const std::size_t i : open_) {
    if (demand_.rules[i] == nullptr) {
      (group(i).outlier != OutlierReason::kNone ? outliers : regular).push_back(i);
    }
  }
  std::uint64_t left = budgets().ram_bytes - demand_.ram_bytes;  // never below 0: checked before
  keep(outliers, left);
  keep(regular, left);
  std::erase_if(open_, [this](std::size_t i) { return placement_.tensors[i].why != 0; });
}

void Planner::keep(const std::vector<std::size_t>& candidates, std::uint64_t& budget) {
  std::vector<ResidentCandidate> wanted;
  wanted.reserve(candidates.size());
  for (const std::size_t i : candidates) {
    wanted.push_back({tensors_[i].bytes, tensors_[i].reads_per_step + tensors_[i].writes_per_step});
  }
  const std::vector<bool> kept = choose_residents(wanted, budget);
  for (std::size_t k = 0; k < candidates.size(); ++k) {
    if (kept[k]) {
      const std::size_t i = candidates[k];
      budget -= tensors_[i].bytes;
      set_by_group(i, Place::kRam, [&] {
        return why_outlier(i) + fmt::format("fits into ram_bytes of {}", budgets().ram_bytes);
      });
    }
  }
}

Result<void> Planner::hold_staging() {
  const auto found = std::ranges::find_if(placement_.tensors, [](const PlacedTensor& placed) {
    return placed.why == 0 || is_on_drive(placed.place);
  });
  if (found == placement_.tensors.end()) {
    return {};
  }
  placement_.staging_bytes = kHostChunks.bytes();
  if (budgets().max_pinned_bytes >= kHostChunks.bytes()) {
    return {};
  }
  Error error = fault(
      Fault::kExhausted,
      fmt::format("max_pinned_bytes of {} is too small to bring {} ({} bytes) from the drive: {} "
                  "chunks of {} bytes are kept for transfers{}",
                  budgets().max_pinned_bytes, found->name, found->bytes, kHostChunks.chunks,
                  kHostChunks.chunk_bytes, budgets().smallest_clause(kHostChunks.bytes())));
  error.tensor = found->name;
  return error;
}

void Planner::pin() {
  std::vector<PinnedCandidate> candidates;
  candidates.reserve(open_.size());
  for (const std::size_t i : open_) {
    candidates.push_back({tensors_[i].bytes,
                          static_cast<std::uint32_t>(group_of(groups_, tensors_[i].bytes)),
                          demand_.rules[i] != nullptr});
  }
  // What the rules pin fits, or they would have been refused.
  const std::uint64_t taken = placement_.staging_bytes + demand_.dedicated_bytes;
  PinnedLayout layout =
      lay_out_pinned(candidates, groups_, open_.empty() ? 0 : budgets().max_pinned_bytes - taken);
  placement_.classes = std::move(layout.classes);
  placement_.window_tensors = layout.window_tensors;
  placement_.pinned_bytes = layout.pinned_bytes + taken;
  placement_.peak_live_bytes = layout.peak_live_bytes + placement_.staging_bytes;
  for (std::size_t k = 0; k < open_.size(); ++k) {
    const PinnedFate& fate = layout.fates[k];
    if (const TensorRule* const rule = demand_.rules[open_[k]]; rule != nullptr) {
      set(open_[k], fate.place, "rule " + rule->text);
    } else {
      set_by_group(open_[k], fate.place, [&] { return why_pinned(open_[k], fate); });
    }
    if (fate.place == Place::kClass) {
      placement_.tensors[open_[k]].class_index = fate.class_index;
    }
  }
}

void Planner::add_up() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const PlanTensor& tensor = tensors_[i];
    const Place place = placement_.tensors[i].place;
    const bool by_rule = demand_.rules[i] != nullptr;
    if (place == Place::kDedicated && by_rule) {
      placement_.peak_live_bytes += tensor.bytes;  // its pinned bytes are in what the rules pin
    }
    if (place == Place::kRam && tensor.swappable) {
      placement_.ram_bytes += tensor.bytes;
    } else if (is_on_drive(place)) {
      placement_.nvme_bytes += align_up(tensor.bytes, kBlockBytes);
    }
  }
}

std::string Planner::why_pinned(std::size_t i, const PinnedFate& fate) const {
  switch (fate.place) {
    case Place::kClass:
      return why_outlier(i) + fmt::format("shares {} slots of {}",
                                          placement_.classes[fate.class_index].slots,
                                          placement_.classes[fate.class_index].slot_bytes);
    case Place::kDedicated:
      return why_outlier(i) + fmt::format("max_pinned_bytes of {} holds it beside the classes",
                                          budgets().written_pinned_bytes());
    default:
      return why_outlier(i) + fmt::format(
                                  "neither ram_bytes of {} nor max_pinned_bytes of {} has "
                                  "room for it beside the others",
                                  budgets().ram_bytes, budgets().written_pinned_bytes());
  }
}

std::string Planner::why_outlier(std::size_t i) const {
  switch (group(i).outlier) {
    case OutlierReason::kNone:
      return {};
    case OutlierReason::kAboveLimit:
      return fmt::format("larger than {} ({} bytes); ", config_.outliers.setting,
                         config_.outliers.above_bytes);
    case OutlierReason::kAboveSizeClasses:
      return "larger than every class of size_classes; ";
    case OutlierReason::kLone:
      return "more than four times as large as any regular tensor; ";
    case OutlierReason::kTwoSlotsTooMany:
      return fmt::format("two slots of it are more than max_pinned_bytes of {}; ",
                         budgets().max_pinned_bytes);
  }
  return {};
}

}  // namespace

std::vector<ClassPlan> Placement::pool() const {
  std::vector<ClassPlan> plan;
  plan.reserve(classes.size());
  for (const PlacedClass& placed : classes) {
    plan.push_back({placed.slot_bytes, placed.slots});
  }
  return plan;
}

std::uint64_t largest_regular_slot_bytes(const std::vector<PlanTensor>& tensors,
                                         const EngineConfig& config) {
  const std::vector<const TensorRule*> rules = governing_rules(tensors, config);
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (rules[i] != nullptr && is_grouped(tensors[i], rules[i])) {
      largest = std::max(largest, align_up(tensors[i].bytes, kBlockBytes));
    }
  }
  for (const SizeGroup& group : group_sizes(tensors, rules, config, 0)) {
    if (group.outlier == OutlierReason::kNone) {
      largest = std::max(largest, group.slot_bytes);
    }
  }
  return largest;
}

Result<Placement> place_tensors(const std::vector<PlanTensor>& tensors, const EngineConfig& config,
                                const Budgets& budgets) {
  Result<RuleDemand> demand = demand_of_rules(tensors, config, budgets);
  PENSTOCK_TRY(demand);
  return Planner(tensors, config, std::move(*demand)).plan();
}

}  // namespace penstock
