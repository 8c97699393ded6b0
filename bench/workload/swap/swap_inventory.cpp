#include "bench/workload/swap/swap_inventory.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace penstock::bench {
namespace {

using Number = std::uint32_t;

class Builder {
 public:
  explicit Builder(const TrainingSetup& setup) : setup_(setup) {}

  SwapInventory build(bool steps) {
    const bool swaps_states =
        steps && (!setup_.has_config || setup_.optimizer_device() == OffloadDevice::kNvme);
    add_parameters();
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

  void add_parameters() {
    const bool swaps_parameters =
        !setup_.has_config || setup_.param_device() == OffloadDevice::kNvme;
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
    }
  }

  void add_listed_states() {
    for (const TensorInfo& tensor : setup_.inventory.tensors) {
      const bool is_state = tensor.role == Role::kMaster || tensor.role == Role::kMoment;
      if (is_state && is_large(setup_.rank_bytes(tensor))) {
        const Number number =
            add({tensor.name, tensor.dtype, {setup_.rank_elements(tensor)}, tensor.role});
        result_.sub_groups.push_back({{number}, {}});
      }
    }
  }

  void add_sub_groups() {
    const std::vector<penstock::SubGroup> groups = setup_.sub_groups();
    for (std::size_t i = 0; i < groups.size(); ++i) {
      SwapInventory::SubGroup group;
      if (is_large(groups[i].elements * dtype_bytes(DType::kF32))) {
        for (const auto& [state, role] : {std::pair{"master", Role::kMaster},
                                          {"exp_avg", Role::kMoment},
                                          {"exp_avg_sq", Role::kMoment}}) {
          group.states.push_back(
              add({fmt::format("{}.{}", i, state), DType::kF32, {groups[i].elements}, role}));
        }
      }
      for (std::size_t parameter = groups[i].first; parameter < groups[i].end; ++parameter) {
        if (numbers_[parameter]) {
          group.parameters.push_back(*numbers_[parameter]);
        }
      }
      result_.sub_groups.push_back(std::move(group));
    }
  }

  const TrainingSetup& setup_;
  SwapInventory result_;
  std::vector<std::optional<Number>> numbers_;  // of the inventory's parameters, where swapped
};

}  // namespace

SwapInventory swap_inventory(const TrainingSetup& setup, Phase phase) {
  return Builder(setup).build(phase == Phase::kStep || phase == Phase::kTrain);
}

}  // namespace penstock::bench
