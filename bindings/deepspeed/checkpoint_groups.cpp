#include "bindings/deepspeed/checkpoint_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "bindings/deepspeed/checkpoint_summary.h"
#include "swap/plan/saturating.h"

namespace penstock {

void CheckpointGroups::add(const OptimizerShard& shard) {
  ++optimizers_read_;
  is_evenly_divided_ &= shard.is_evenly_divided;
  odd_moments_.insert(odd_moments_.end(), shard.odd_moments.begin(), shard.odd_moments.end());
  whole_moments_.insert(shard.whole_moments.begin(), shard.whole_moments.end());
  is_adam_ |= shard.is_adam;
  const std::size_t groups = std::max(flat_totals_.size(), shard.flat_elements.size());
  flat_totals_.resize(groups);
  empty_groups_.resize(groups);
  for (std::size_t group = 0; group < shard.flat_elements.size(); ++group) {
    const std::uint64_t elements = shard.flat_elements[group];
    flat_totals_[group] += std::min(elements, ~flat_totals_[group]);
    empty_groups_[group] += elements == 0 ? 1 : 0;
  }
}

/// Another optimizer may keep one number for several weights under such a name, in every group.
bool CheckpointGroups::is_damage(const OddMoment& moment) const {
  return is_adam_ || whole_moments_.contains(moment.name);
}

std::string CheckpointGroups::doubt() const {
  const auto found = std::ranges::find_if_not(
      odd_moments_, [this](const OddMoment& moment) { return is_damage(moment); });
  return found == odd_moments_.end()
             ? ""
             : fmt::format(
                   "no {} is as long as its master: only the optimizer that made them can "
                   "tell whether they are whole. A load that steps them element by "
                   "element refuses them",
                   found->name);
}

/// Whether the flat masters are as long as the parameters that lie in them, and moments as long as
/// masters. Stages 1 and 2 may pad each parameter.
std::vector<std::string> CheckpointGroups::obstacles(const CheckpointSummary& summary) const {
  const bool is_partitioned = summary.zero_stage.value_or(0) >= 3;
  const bool is_exact = is_partitioned && is_evenly_divided_ && summary.model_parallel == 1;
  std::size_t empty = 0;
  std::size_t cut = 0;
  std::size_t longer = 0;
  for (std::size_t group = 0; group < summary.groups.size(); ++group) {
    const ParameterGroup& expected = summary.groups[group];
    const std::uint64_t there = group < flat_totals_.size() ? flat_totals_[group] : 0;
    const std::uint64_t wanted =
        is_partitioned ? multiply_saturating(expected.elements_a_rank, optimizers_read_)
                       : expected.elements;
    const bool has_empty =
        group >= flat_totals_.size() || there == 0 || (is_partitioned && empty_groups_[group] > 0);
    empty += expected.elements > 0 && has_empty ? 1 : 0;
    cut += !has_empty && there < wanted ? 1 : 0;
    longer += is_exact && there > wanted ? 1 : 0;
  }
  std::vector<std::string> reasons;
  const std::string kind = is_partitioned ? "sub-group" : "group";
  const auto add_masters = [&](std::size_t count, const char* are) {
    if (count > 0) {
      reasons.push_back(fmt::format("the masters of {} of {} {}s are {}", count,
                                    summary.groups.size(), kind, are));
    }
  };
  add_masters(empty, "not in its optimizer files");
  add_masters(cut, "shorter than their parameters");
  add_masters(longer, "longer than their parameters");
  const auto is_damaged = [this](const OddMoment& moment) { return is_damage(moment); };
  const auto damaged = std::ranges::find_if(odd_moments_, is_damaged);
  if (damaged != odd_moments_.end()) {
    const OddMoment& first = *damaged;
    reasons.push_back(fmt::format(
        "{} of its moments are not as long as their masters: {} of {} {} has {} elements, its "
        "master {}",
        std::count_if(damaged, odd_moments_.end(), is_damaged), first.name, kind, first.group,
        first.elements, first.of_master));
  }
  return reasons;
}

}  // namespace penstock
