#include "bench/pair/swapper_work.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/workload/swap/run_length.h"
#include "bench/workload/swap/swap_inventory.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

Error cannot(const Job& job, const char* what) {
  return fault(Fault::kInvalidArgument,
               fmt::format("job {}: DeepSpeed's swappers {}", job.name, what));
}

/// Parameters as the script numbers them.
struct Parameters {
  std::vector<std::size_t> numbers;  ///< of each tensor of the inventory
  std::vector<std::uint64_t> elements;
  std::uint64_t element_bytes = 0;
};

Result<Parameters> number_parameters(const Job& job, const SwapInventory& inventory) {
  Parameters all;
  all.numbers.resize(inventory.tensors.size());
  for (const std::uint32_t tensor : inventory.parameters) {
    const TensorInfo& info = inventory.tensors[tensor];
    const std::uint64_t element_bytes = dtype_bytes(info.dtype);
    if (all.element_bytes != 0 && element_bytes != all.element_bytes) {
      return cannot(job, "hold parameters of one type, and these are of several");
    }
    all.element_bytes = element_bytes;
    all.numbers[tensor] = all.elements.size();
    all.elements.push_back(info.bytes() / element_bytes);
  }
  if (all.element_bytes != 0 && all.element_bytes != 2 && all.element_bytes != 4) {
    return cannot(job, "take parameters of 16 or 32 bits");
  }
  return all;
}

/// What the optimizer steps as one.
json groups_of(const SwapInventory& inventory, const Parameters& numbered) {
  json groups = json::array();
  for (const SwapInventory::SubGroup& group : inventory.sub_groups) {
    json parameters = json::array();
    for (const std::uint32_t tensor : group.parameters) {
      parameters.push_back(numbered.numbers[tensor]);
    }
    groups.push_back({{"elements", group.elements}, {"parameters", std::move(parameters)}});
  }
  return groups;
}

struct Entry {
  const char* kind;
  std::size_t number;
  std::uint64_t compute_ns = 0;
  PhaseBytes bytes = {};
};

/// One loop; steps of one sub-group are one entry.
Result<std::vector<Entry>> order_of(const Job& job, const SwapInventory& inventory,
                                    const Parameters& numbered) {
  const auto compute_after = [&](std::uint32_t tensor) {
    return compute_ns(job, inventory.bytes(tensor));
  };
  std::vector<Entry> order;
  std::optional<std::size_t> group;
  for (const PhaseUse& use : phase_order(inventory, job.phase)) {
    if (use.kind == PhaseUse::Kind::kParameter) {
      order.push_back({"parameter", numbered.numbers[use.number], compute_after(use.number)});
    } else {
      const SwapInventory::Step& step = inventory.steps[use.number];
      if (step.states.empty()) {
        return cannot(job, "swap the states of each sub-group, and one is too small");
      }
      if (group != step.sub_group) {
        order.push_back({"group", step.sub_group});
        group = step.sub_group;
      }
      for (const std::uint32_t state : step.states) {
        order.back().compute_ns += compute_after(state);
      }
    }
    const PhaseBytes bytes = phase_bytes(inventory, {&use, 1});
    order.back().bytes.read += bytes.read;
    order.back().bytes.write += bytes.write;
  }
  return order;
}

}  // namespace

Result<std::string> swapper_work(const Job& job, const SwapInventory& inventory) {
  if (inventory.sub_groups.empty() && !inventory.steps.empty()) {
    return cannot(job, "make the optimizer's states themselves, and this inventory lists them");
  }
  const Result<Parameters> numbered = number_parameters(job, inventory);
  PENSTOCK_TRY(numbered);
  const Result<std::vector<Entry>> order = order_of(job, inventory, *numbered);
  PENSTOCK_TRY(order);
  json entries = json::array();
  for (const Entry& entry : *order) {
    entries.push_back(
        {entry.kind, entry.number, entry.compute_ns, entry.bytes.read, entry.bytes.write});
  }
  const json work{{"directory", job.directory},
                  {"dtype", numbered->element_bytes == 4 ? "float32" : "bfloat16"},
                  {"elements", numbered->elements},
                  {"groups", groups_of(inventory, *numbered)},
                  {"order", std::move(entries)},
                  {"loops", job.loops},
                  {"spins", !job.compute || job.compute->spins}};
  return work.dump();
}

}  // namespace penstock::bench
