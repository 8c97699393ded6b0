#include "bench/workload/swap/phase_order.h"

#include <ranges>

namespace penstock::bench {
namespace {

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
