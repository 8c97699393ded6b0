#include "bench/pair/swapper_work.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/workload/swap/phase_order.h"
#include "bench/workload/swap/run_length.h"
#include "bench/workload/swap/swap_inventory.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

Error cannot(const Job& job, const char* what) {
  return fault(Fault::kInvalidArgument,
               fmt::format("job {}: DeepSpeed's swappers {}", job.name, what));
}

/// The work as the script reads it.
class Work {
 public:
  Work(const Job& job, const SwapInventory& inventory) : job_(job), inventory_(inventory) {}

  Result<json> describe(const std::string& directory) {
    PENSTOCK_TRY(number_parameters());
    PENSTOCK_TRY(add_groups());
    PENSTOCK_TRY(add_order());
    return json{{"directory", directory},
                {"dtype", element_bytes_ == 4 ? "float32" : "bfloat16"},
                {"elements", elements_},
                {"groups", groups_},
                {"order", order()},
                {"loops", job_.loops},
                {"spins", !job_.compute || job_.compute->spins}};
  }

 private:
  struct Entry {
    const char* kind;
    std::size_t number;
    std::uint64_t compute_ns;
    PhaseBytes bytes;
  };

  Result<void> number_parameters() {
    numbers_.resize(inventory_.tensors.size());
    for (const std::uint32_t tensor : inventory_.parameters) {
      const TensorInfo& info = inventory_.tensors[tensor];
      const std::uint64_t element_bytes = dtype_bytes(info.dtype);
      if (element_bytes_ != 0 && element_bytes != element_bytes_) {
        return cannot(job_, "hold parameters of one type, and these are of several");
      }
      element_bytes_ = element_bytes;
      numbers_[tensor] = elements_.size();
      elements_.push_back(info.bytes() / element_bytes);
    }
    if (element_bytes_ != 0 && element_bytes_ != 2 && element_bytes_ != 4) {
      return cannot(job_, "take parameters of 16 or 32 bits");
    }
    return {};
  }

  Result<void> add_groups() {
    if (inventory_.sub_groups.empty() && !inventory_.steps.empty()) {
      return cannot(job_, "make the optimizer's states themselves, and this inventory lists them");
    }
    for (const SwapInventory::SubGroup& group : inventory_.sub_groups) {
      std::vector<std::size_t> parameters;
      for (const std::uint32_t tensor : group.parameters) {
        parameters.push_back(numbers_[tensor]);
      }
      groups_.push_back({{"elements", group.elements}, {"parameters", std::move(parameters)}});
    }
    return {};
  }

  // Steps of one sub-group are one entry.
  Result<void> add_order() {
    std::optional<std::size_t> group;
    for (const PhaseUse& use : phase_order(inventory_, job_.phase)) {
      if (use.kind == PhaseUse::Kind::kParameter) {
        order_.push_back({"parameter", numbers_[use.number], compute_after(use.number), {}});
      } else {
        const SwapInventory::Step& step = inventory_.steps[use.number];
        if (step.states.empty()) {
          return cannot(job_, "swap the states of each sub-group, and one is too small");
        }
        if (group != step.sub_group) {
          order_.push_back({"group", step.sub_group, 0, {}});
          group = step.sub_group;
        }
        for (const std::uint32_t state : step.states) {
          order_.back().compute_ns += compute_after(state);
        }
      }
      const PhaseBytes bytes = phase_bytes(inventory_, {&use, 1});
      order_.back().bytes.read += bytes.read;
      order_.back().bytes.write += bytes.write;
    }
    return {};
  }

  json order() const {
    json entries = json::array();
    for (const Entry& entry : order_) {
      entries.push_back(
          {entry.kind, entry.number, entry.compute_ns, entry.bytes.read, entry.bytes.write});
    }
    return entries;
  }

  std::uint64_t compute_after(std::uint32_t tensor) const {
    return job_.compute ? compute_ns(*job_.compute, inventory_.bytes(tensor)) : 0;
  }

  const Job& job_;
  const SwapInventory& inventory_;
  std::uint64_t element_bytes_ = 0;
  std::vector<std::size_t> numbers_;  // of each tensor among the parameters
  std::vector<std::uint64_t> elements_;
  json groups_ = json::array();
  std::vector<Entry> order_;
};

}  // namespace

Result<std::string> swapper_work(const Job& job, const SwapInventory& inventory,
                                 const std::string& directory) {
  const Result<json> work = Work(job, inventory).describe(directory);
  PENSTOCK_TRY(work);
  return work->dump();
}

}  // namespace penstock::bench
