#include "swap/plan/rule_demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "swap/plan/size_group.h"

namespace penstock {
namespace {

Error too_small(const PlanTensor& tensor, std::string message) {
  Error error = fault(Fault::kExhausted, std::move(message));
  error.tensor = tensor.name;
  return error;
}

Result<void> hold_ram(const std::vector<PlanTensor>& tensors, RuleDemand& demand) {
  const PlanTensor* first_too_many = nullptr;
  const TensorRule* rule = nullptr;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (demand.rules[i] == nullptr || demand.rules[i]->place != Place::kRam) {
      continue;
    }
    demand.ram_bytes += tensors[i].bytes;
    if (first_too_many == nullptr && demand.ram_bytes > demand.budgets.ram_bytes) {
      first_too_many = &tensors[i];
      rule = demand.rules[i];
    }
  }
  if (first_too_many == nullptr) {
    return {};
  }
  if (demand.budgets.ram_given) {
    return too_small(
        *first_too_many,
        fmt::format("the rule {} keeps {} ({} bytes) in RAM, but ram_bytes of {} is too "
                    "small for what the rules keep; the smallest value that works is {}",
                    rule->text, first_too_many->name, first_too_many->bytes,
                    demand.budgets.ram_bytes, demand.ram_bytes));
  }
  demand.budgets.ram_bytes = demand.ram_bytes;
  return {};
}

// Finds the slot that a rule's `place: class` asks for; the groups are those of place_tensors().
class ForcedSlots {
 public:
  ForcedSlots(const std::vector<PlanTensor>& tensors, const EngineConfig& config,
              const std::vector<const TensorRule*>& rules) {
    groups_ = group_sizes(tensors, rules, config, 0);
    counted_.resize(groups_.size(), false);
  }

  // Bytes of the slot that `bytes` needs, unless an earlier tensor has brought it.
  std::uint64_t add(std::uint64_t bytes) {
    const std::size_t group = group_of(groups_, bytes);
    if (counted_[group]) {
      return 0;
    }
    counted_[group] = true;
    return groups_[group].slot_bytes;
  }

 private:
  std::vector<SizeGroup> groups_;
  std::vector<bool> counted_;
};

Result<void> hold_pinned(const std::vector<PlanTensor>& tensors, ForcedSlots slots,
                         RuleDemand& demand) {
  std::uint64_t needed = kHostChunks.bytes();
  const PlanTensor* first_too_many = nullptr;
  const TensorRule* rule = nullptr;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (demand.rules[i] == nullptr) {
      continue;
    }
    if (demand.rules[i]->place == Place::kDedicated) {
      const std::uint64_t padded = align_up(tensors[i].bytes, kBlockBytes);
      demand.dedicated_bytes += padded;
      needed += padded;
    } else if (demand.rules[i]->place == Place::kClass) {
      needed += slots.add(tensors[i].bytes);
    } else {
      continue;
    }
    if (first_too_many == nullptr && needed > demand.budgets.max_pinned_bytes) {
      first_too_many = &tensors[i];
      rule = demand.rules[i];
    }
  }
  if (first_too_many == nullptr) {
    return {};
  }
  if (demand.budgets.max_pinned_given || needed > demand.budgets.quarter_bytes) {
    return too_small(
        *first_too_many,
        fmt::format(
            "the rule {} gives {} ({} bytes) pinned memory, but max_pinned_bytes of {}{} is "
            "too small for what the rules pin{}",
            rule->text, first_too_many->name, first_too_many->bytes,
            demand.budgets.max_pinned_bytes,
            demand.budgets.max_pinned_given ? ""
                                            : " (at most a quarter of the free memory "
                                              "unless it is given)",
            demand.budgets.smallest_clause(needed)));
  }
  demand.budgets.max_pinned_bytes = needed;
  return {};
}

}  // namespace

std::vector<const TensorRule*> governing_rules(const std::vector<PlanTensor>& tensors,
                                               const EngineConfig& config) {
  std::vector<const TensorRule*> rules(tensors.size());
  for (std::size_t i = 0; i < tensors.size() && !config.tensors.empty(); ++i) {
    const PlanTensor& tensor = tensors[i];
    const auto rule = std::ranges::find_if(config.tensors, [&tensor](const TensorRule& candidate) {
      return candidate.matches(tensor.name, tensor.bytes);
    });
    const bool governs = tensor.swappable && tensor.bytes != 0 && rule != config.tensors.end();
    rules[i] = governs ? &*rule : nullptr;
  }
  return rules;
}

bool is_grouped(const PlanTensor& tensor, const TensorRule* rule) {
  return tensor.swappable && tensor.bytes != 0 && (rule == nullptr || rule->place == Place::kClass);
}

std::vector<SizeGroup> group_sizes(const std::vector<PlanTensor>& tensors,
                                   const std::vector<const TensorRule*>& rules,
                                   const EngineConfig& config, std::uint64_t max_pinned_bytes) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (is_grouped(tensors[i], rules[i])) {
      sizes.push_back(tensors[i].bytes);
    }
  }
  return make_size_groups(count_sizes(std::move(sizes)),
                          {config.outliers.above_bytes, max_pinned_bytes, config.size_classes});
}

Result<RuleDemand> demand_of_rules(const std::vector<PlanTensor>& tensors,
                                   const EngineConfig& config, const Budgets& budgets) {
  RuleDemand demand;
  demand.budgets = budgets;
  demand.rules = governing_rules(tensors, config);
  PENSTOCK_TRY(hold_ram(tensors, demand));
  if (!config.tensors.empty()) {
    PENSTOCK_TRY(hold_pinned(tensors, ForcedSlots(tensors, config, demand.rules), demand));
  }
  return demand;
}

}  // namespace penstock
