#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bindings/deepspeed/torch_archive.h"

namespace penstock {

/// How much there is of masters, or of one kind of moment.
struct StateTotal {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;

  void add(const ArchivedTensor& tensor) noexcept;
  void add(const StateTotal& other) noexcept;
};

/// By name (`master`, `exp_avg`) and type.
using StateTotals = std::map<std::pair<std::string, std::string>, StateTotal>;

/// A moment of Adam that has not one element for each of its master.
struct OddMoment {
  std::string name;
  std::size_t group = 0;
  std::uint64_t elements = 0;
  std::uint64_t of_master = 0;
};

/// What a rank's `…_optim_states.pt` says (deepspeed/runtime/zero/stage3.py: _rigid_state_dict,
/// stage_1_and_2.py: state_dict).
struct OptimizerShard {
  std::optional<std::int64_t> zero_stage;
  std::optional<std::int64_t> partitions;
  std::vector<std::uint64_t> flat_elements;  ///< by group
  StateTotals states;
  std::vector<OddMoment> odd_moments;
  std::set<std::string> whole_moments;  ///< names of those that are as long as a master
  bool is_adam = false;                 ///< every moment has to be that
  std::set<double> steps;               ///< that the optimizer has counted
  /// False: stage 3 has divided some groups over fewer ranks than the others.
  bool is_evenly_divided = true;
};

OptimizerShard read_optimizer_shard(const TorchArchive& archive);

/// The group that a tensor of such a file belongs to, by the place where it stands
/// (`optimizer_state_dict.fp32_flat_groups[3]`). Nothing for any other.
std::optional<std::size_t> group_at(std::string_view place);

}  // namespace penstock
