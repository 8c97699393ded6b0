#include "bench/workload/swap/phase_order.h"

#include <ranges>

namespace penstock::bench {
namespace {

using Action = TensorUse::Action;
using Order = std::vector<TensorUse>;

void add_forward(const SwapInventory& inventory, Order& order) {
  for (const std::uint32_t tensor : inventory.parameters) {
    order.push_back({Action::kRead, tensor});
  }
}

void add_backward(const SwapInventory& inventory, Order& order) {
  for (const std::uint32_t tensor : std::views::reverse(inventory.parameters)) {
    order.push_back({Action::kRead, tensor});
  }
}

void add_step(const SwapInventory& inventory, Order& order) {
  for (const SwapInventory::SubGroup& group : inventory.sub_groups) {
    for (const std::uint32_t state : group.states) {
      order.push_back({Action::kFetch, state});
    }
    for (const std::uint32_t parameter : group.parameters) {
      order.push_back({Action::kWrite, parameter});
    }
    for (const std::uint32_t state : group.states) {
      order.push_back({Action::kCommit, state});
    }
  }
}

}  // namespace

std::vector<TensorUse> phase_order(const SwapInventory& inventory, Phase phase) {
  Order order;
  switch (phase) {
    case Phase::kForward:
      add_forward(inventory, order);
      break;
    case Phase::kBackward:
      add_backward(inventory, order);
      break;
    case Phase::kStep:
      add_step(inventory, order);
      break;
    case Phase::kTrain:
      add_forward(inventory, order);
      add_backward(inventory, order);
      add_step(inventory, order);
      break;
    case Phase::kGenerate:
      for (std::uint32_t token = 0; token < kTokensPerLoop; ++token) {
        add_forward(inventory, order);
      }
      break;
  }
  return order;
}

PhaseBytes phase_bytes(const SwapInventory& inventory, std::span<const TensorUse> order) {
  PhaseBytes bytes;
  for (const TensorUse& use : order) {
    const bool reads = use.action == Action::kRead || use.action == Action::kFetch;
    (reads ? bytes.read : bytes.write) += inventory.bytes(use.tensor);
  }
  return bytes;
}

}  // namespace penstock::bench
