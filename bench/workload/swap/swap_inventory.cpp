#include "bench/workload/swap/swap_inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <utility>

#include "alloc/bytes.h"
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
      std::optional<Number>& number = numbers_.emplace_back();
      if (swaps_parameters && tensor.role == Role::kParam && is_large(setup_.rank_bytes(tensor))) {
        number = add(
            {tensor.name, setup_.held_dtype(tensor), {setup_.rank_elements(tensor)}, Role::kParam});
        result_.parameters.push_back(*number);
      }
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
    const std::vector<std::size_t> trained = setup_.trained();
    for (const penstock::SubGroup& group : setup_.sub_groups()) {
      add_sub_group(group.elements,
                    std::span(trained).subspan(group.first, group.end - group.first));
    }
  }

  // `places`: in the inventory.
  void add_sub_group(std::uint64_t elements, std::span<const std::size_t> places) {
    const std::size_t number = result_.sub_groups.size();
    SwapInventory::SubGroup& sub_group = result_.sub_groups.emplace_back();
    sub_group.elements = elements;
    std::vector<SwapInventory::Step> steps(
        align_up(elements, kStateChunkElements) / kStateChunkElements, {{}, {}, number});
    if (is_large(elements * dtype_bytes(DType::kF32))) {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::uint64_t begin = i * kStateChunkElements;
        steps[i].states =
            add_states(number, begin, std::min(begin + kStateChunkElements, elements));
      }
    }
    std::uint64_t master_end = 0;
    for (const std::size_t place : places) {
      master_end += setup_.partition_elements(setup_.inventory.tensors[place]);
      if (const std::optional<Number> parameter = numbers_[place]) {
        steps[(master_end - 1) / kStateChunkElements].parameters.push_back(*parameter);
        sub_group.parameters.push_back(*parameter);
      }
    }
    std::ranges::copy_if(steps, std::back_inserter(result_.steps),
                         [](const SwapInventory::Step& step) {
                           return !step.states.empty() || !step.parameters.empty();
                         });
  }

  std::vector<Number> add_states(std::size_t sub_group, std::uint64_t begin, std::uint64_t end) {
    std::vector<Number> states;
    for (const auto& [state, role] : {std::pair{"master", Role::kMaster},
                                      {"exp_avg", Role::kMoment},
                                      {"exp_avg_sq", Role::kMoment}}) {
      states.push_back(add(
          {fmt::format("{}.{}.{}", sub_group, begin, state), DType::kF32, {end - begin}, role}));
    }
    return states;
  }

  const TrainingSetup& setup_;
  SwapInventory result_;
  std::vector<std::optional<Number>> numbers_;  // by place in the inventory: of what is swapped
};

// Of `count` tensors that share `left_bytes` of which `wanted_bytes` are wanted.
std::size_t share(std::size_t count, double wanted_bytes, double left_bytes) {
  const double ratio = std::clamp(wanted_bytes / left_bytes, 0.0, 1.0);
  return static_cast<std::size_t>(std::floor(static_cast<double>(count) * ratio + 0.5));
}

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

Inventory inventory_subset(const Inventory& inventory, std::uint64_t bytes) {
  if (inventory.bytes() <= bytes || inventory.tensors.empty()) {
    return inventory;
  }
  std::map<std::uint64_t, std::vector<std::size_t>, std::greater<>> by_size;
  for (std::size_t i = 0; i < inventory.tensors.size(); ++i) {
    by_size[inventory.tensors[i].bytes()].push_back(i);
  }
  auto wanted_bytes = static_cast<double>(bytes);
  auto left_bytes = static_cast<double>(inventory.bytes());
  std::vector<std::size_t> chosen;
  for (const auto& [size, members] : by_size) {
    if (size == 0) {
      continue;
    }
    const std::size_t count = share(members.size(), wanted_bytes, left_bytes);
    for (std::size_t i = 0; i < count; ++i) {
      chosen.push_back(members[(2 * i + 1) * members.size() / (2 * count)]);
    }
    wanted_bytes -= static_cast<double>(size) * static_cast<double>(count);
    left_bytes -= static_cast<double>(size) * static_cast<double>(members.size());
  }
  if (chosen.empty()) {
    chosen.push_back(by_size.rbegin()->second.front());
  }
  std::ranges::sort(chosen);
  Inventory subset;
  for (const std::size_t index : chosen) {
    subset.tensors.push_back(inventory.tensors[index]);
  }
  return subset;
}

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
