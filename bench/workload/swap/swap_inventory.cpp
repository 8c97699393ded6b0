#include "bench/workload/swap/swap_inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>

#include "swap/update/state_chunk.h"

namespace penstock::bench {
namespace {

using Number = std::uint32_t;

class Builder {
 public:
  explicit Builder(const TrainingSetup& setup) : setup_(setup) {}

  SwapInventory build(Phase phase) {
    const bool steps = phase == Phase::kTrain || phase == Phase::kStep;
    const bool swaps_states =
        steps && (!setup_.has_config || setup_.optimizer_device() == OffloadDevice::kNvme);
    add_parameters(phase != Phase::kStep);
    if (swaps_states && (setup_.lists(Role::kMaster) || setup_.lists(Role::kMoment))) {
      add_listed_states();
    } else if (swaps_states) {
      add_sub_groups();
    }
    return std::move(result_);
  }

 private:
  bool is_large(std::uint64_t bytes) const {
    return bytes > 0 && (!setup_.has_config || bytes >= setup_.swappable_bytes_min());
  }

  Number add(TensorInfo tensor) {
    result_.tensors.push_back(std::move(tensor));
    return static_cast<Number>(result_.tensors.size() - 1);
  }

  void add_parameters(bool used) {
    const bool swaps_parameters =
        used && (!setup_.has_config || setup_.param_device() == OffloadDevice::kNvme);
    for (const TensorInfo& tensor : setup_.inventory.tensors) {
      if (tensor.role != Role::kParam) {
        continue;
      }
      std::optional<Number> number;
      if (swaps_parameters && is_large(setup_.rank_bytes(tensor))) {
        number = add(
            {tensor.name, setup_.held_dtype(tensor), {setup_.rank_elements(tensor)}, Role::kParam});
        result_.parameters.push_back(*number);
      }
      numbers_.push_back(number);
      elements_.push_back(setup_.rank_elements(tensor));
    }
  }

  void add_listed_states() {
    for (const TensorInfo& tensor : setup_.inventory.tensors) {
      const bool is_state = tensor.role == Role::kMaster || tensor.role == Role::kMoment;
      if (is_state && is_large(setup_.rank_bytes(tensor))) {
        const Number number =
            add({tensor.name, tensor.dtype, {setup_.rank_elements(tensor)}, tensor.role});
        result_.steps.push_back({{number}, {}, 0});
      }
    }
  }

  void add_sub_groups() {
    for (const penstock::SubGroup& group : setup_.sub_groups()) {
      SwapInventory::SubGroup& added = result_.sub_groups.emplace_back();
      added.elements = group.elements;
      std::uint64_t end = 0;  // of the parameter's master
      std::vector<std::uint64_t> ends;
      for (std::size_t parameter = group.first; parameter < group.end; ++parameter) {
        end += elements_[parameter];
        if (numbers_[parameter]) {
          added.parameters.push_back(*numbers_[parameter]);
          ends.push_back(end);
        }
      }
      add_steps(added, ends, is_large(group.elements * dtype_bytes(DType::kF32)));
    }
  }

  /// Of the latest sub-group; one that is too small to be swapped has a step without states.
  void add_steps(const SwapInventory::SubGroup& group, const std::vector<std::uint64_t>& ends,
                 bool swaps_states) {
    std::size_t written = 0;
    for (std::uint64_t begin = 0; begin < group.elements; begin += kStateChunkElements) {
      const std::uint64_t end = std::min(begin + kStateChunkElements, group.elements);
      SwapInventory::Step step{{}, {}, result_.sub_groups.size() - 1};
      for (const auto& [state, role] : {std::pair{"master", Role::kMaster},
                                        {"exp_avg", Role::kMoment},
                                        {"exp_avg_sq", Role::kMoment}}) {
        if (swaps_states) {
          const std::string name = fmt::format("{}.{}.{}", step.sub_group, begin, state);
          step.states.push_back(add({name, DType::kF32, {end - begin}, role}));
        }
      }
      for (; written < ends.size() && (ends[written] <= end || end == group.elements); ++written) {
        step.parameters.push_back(group.parameters[written]);
      }
      if (!step.states.empty() || !step.parameters.empty()) {
        result_.steps.push_back(std::move(step));
      }
    }
  }

  const TrainingSetup& setup_;
  SwapInventory result_;
  // Of the inventory's parameters: the number of those that are swapped, and elements.
  std::vector<std::optional<Number>> numbers_;
  std::vector<std::uint64_t> elements_;
};

using Kind = PhaseUse::Kind;
using Order = std::vector<PhaseUse>;

void add_forward(const SwapInventory& inventory, Order& order) {
  for (const std::uint32_t tensor : inventory.parameters) {
    order.push_back({Kind::kParameter, tensor});
  }
}

void add_steps(const SwapInventory& inventory, Order& order) {
  for (std::uint32_t step = 0; step < inventory.steps.size(); ++step) {
    order.push_back({Kind::kStep, step});
  }
}

}  // namespace

SwapInventory swap_inventory(const TrainingSetup& setup, Phase phase) {
  return Builder(setup).build(phase);
}

std::vector<PhaseUse> phase_order(const SwapInventory& inventory, Phase phase) {
  Order order;
  switch (phase) {
    case Phase::kForward:
      add_forward(inventory, order);
      break;
    case Phase::kTrain:
      add_forward(inventory, order);
      for (const std::uint32_t tensor : std::views::reverse(inventory.parameters)) {
        order.push_back({Kind::kParameter, tensor});
      }
      add_steps(inventory, order);
      break;
    case Phase::kGenerate:
      for (std::uint32_t token = 0; token < kTokensPerLoop; ++token) {
        add_forward(inventory, order);
      }
      break;
    case Phase::kStep:
      add_steps(inventory, order);
      break;
  }
  return order;
}

PhaseBytes phase_bytes(const SwapInventory& inventory, std::span<const PhaseUse> order) {
  PhaseBytes bytes;
  for (const PhaseUse& use : order) {
    if (use.kind == Kind::kParameter) {
      bytes.read += inventory.bytes(use.number);
      continue;
    }
    for (const std::uint32_t state : inventory.steps[use.number].states) {
      bytes.read += inventory.bytes(state);
      bytes.write += inventory.bytes(state);
    }
    for (const std::uint32_t parameter : inventory.steps[use.number].parameters) {
      bytes.write += inventory.bytes(parameter);
    }
  }
  return bytes;
}

}  // namespace penstock::bench
