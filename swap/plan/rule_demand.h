#pragma once

#include <cstdint>
#include <vector>

#include "alloc/result.h"
#include "swap/plan/placement.h"
#include "swap/plan/size_group.h"

namespace penstock {

/// The rule that governs each tensor, or nullptr: the first that matches; none for what is not
/// swapped.
std::vector<const TensorRule*> governing_rules(const std::vector<PlanTensor>& tensors,
                                               const EngineConfig& config);

/// Whether the tensor's size matters for the classes: no rule decides, or one wants a class for it.
bool is_grouped(const PlanTensor& tensor, const TensorRule* rule);

/// The groups of all tensors whose size matters; `max_pinned_bytes` as SizeGroupLimits has it.
std::vector<SizeGroup> group_sizes(const std::vector<PlanTensor>& tensors,
                                   const std::vector<const TensorRule*>& rules,
                                   const EngineConfig& config, std::uint64_t max_pinned_bytes);

/// What the rules and the staging need at least, before anything is chosen.
struct RuleDemand {
  std::vector<const TensorRule*> rules;  ///< by tensor, nullptr where none governs
  std::uint64_t ram_bytes = 0;           ///< of all tensors with `place: ram`
  std::uint64_t dedicated_bytes = 0;     ///< of all tensors with `place: dedicated`, each padded
  Budgets budgets;                       ///< as given, or raised where they were not
};

/// Finds the rule of every tensor and makes room for them in the budgets. Errors: as
/// place_tensors().
Result<RuleDemand> demand_of_rules(const std::vector<PlanTensor>& tensors,
                                   const EngineConfig& config, const Budgets& budgets);

}  // namespace penstock
