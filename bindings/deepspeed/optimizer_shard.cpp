#include "bindings/deepspeed/optimizer_shard.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

#include "alloc/excerpt.h"

namespace penstock {
namespace {

constexpr std::string_view kState = "optimizer_state_dict";
// One element a weight, in whatever optimizer has them. Scalars of these names are NovoGrad's.
constexpr std::array<std::string_view, 3> kMoments{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
constexpr std::size_t kStepsRead = 4096;  // a step may lie in a record of its own

class OptimizerReader {
 public:
  explicit OptimizerReader(const TorchArchive& archive)
      : archive_(archive), pickle_(archive.pickle()) {}

  OptimizerShard read();

 private:
  std::optional<std::int64_t> stage() const;
  std::optional<std::int64_t> partitions() const;
  void read_masters();
  void read_plain_masters();
  void read_base(PickleRef base);
  void read_states_of(PickleRef group, std::optional<std::int64_t> number);
  bool numbers_are_groups(PickleRef base) const;
  void compare(std::string_view name, const ArchivedTensor& moment, std::int64_t number);
  void read_step(PickleRef value);
  bool is_of_adam(PickleRef group) const;

  const TorchArchive& archive_;
  const PickleDocument& pickle_;
  OptimizerShard shard_;
  std::unordered_set<PickleRef> seen_;
  std::size_t steps_read_ = 0;
};

/// A number, or the call that makes a ZeroStageEnum of one.
std::optional<std::int64_t> OptimizerReader::stage() const {
  const PickleRef stage = archive_.find({kState, "zero_stage"});
  const PickleValue& arguments = pickle_[pickle_[stage].arguments];
  return arguments.items.size() == 1 ? archive_.integer(arguments.items[0])
                                     : archive_.integer(stage);
}

/// One number, or one a group, which differ where there are experts.
std::optional<std::int64_t> OptimizerReader::partitions() const {
  const PickleRef count = archive_.find({kState, "partition_count"});
  std::optional<std::int64_t> most = archive_.integer(count);
  for (const PickleRef item : pickle_[count].items) {
    const std::optional<std::int64_t> of_group = archive_.integer(item);
    most = std::max(most, of_group);  // nothing is less than any number
  }
  return most;
}

void OptimizerReader::read_masters() {
  for (const std::string_view key : {"fp32_flat_groups", "single_partition_of_fp32_groups"}) {
    const PickleValue& groups = pickle_[archive_.find({kState, key})];
    for (const PickleRef group : groups.items) {
      const std::optional<ArchivedTensor> tensor =
          seen_.insert(group).second ? archive_.tensor(group) : std::nullopt;
      shard_.flat_elements.push_back(tensor ? tensor->elements() : 0);
      if (tensor) {
        shard_.states[{"master", tensor->dtype}].add(*tensor);
      }
    }
  }
}

/// Without ZeRO each group is a list of its own.
void OptimizerReader::read_plain_masters() {
  for (const PickleRef group : pickle_[archive_.find({"optimizer", "fp32_groups"})].items) {
    if (!seen_.insert(group).second) {
      continue;
    }
    for (const PickleRef value : pickle_[group].items) {
      if (const std::optional<ArchivedTensor> tensor = archive_.tensor(value)) {
        shard_.states[{"master", tensor->dtype}].add(*tensor);
      }
    }
  }
}

void OptimizerReader::read_step(PickleRef value) {
  if (value != 0 && ++steps_read_ <= kStepsRead) {
    if (const std::optional<double> step = archive_.number(value)) {
      shard_.steps.insert(*step);
    }
  }
}

/// Before its first step torch's Adagrad has each master twice, by other numbers.
bool OptimizerReader::numbers_are_groups(PickleRef base) const {
  std::int64_t next = 0;
  std::unordered_set<PickleRef> groups;
  for (const PickleRef group : pickle_[pickle_.find(base, "param_groups")].items) {
    if (!groups.insert(group).second) {
      return false;
    }
    for (const PickleRef param : pickle_[pickle_.find(group, "params")].items) {
      if (archive_.integer(param) != next++) {
        return false;
      }
    }
  }
  return static_cast<std::size_t>(next) == shard_.flat_elements.size();
}

/// Stages 1 and 2 save moments with the padding that a rank's last weights have, and masters
/// without.
void OptimizerReader::compare(std::string_view name, const ArchivedTensor& moment,
                              std::int64_t number) {
  const auto group = static_cast<std::size_t>(number);
  const std::uint64_t of_master =
      group < shard_.flat_elements.size() ? shard_.flat_elements[group] : 0;
  const std::uint64_t elements = moment.elements();
  const bool is_padded = shard_.zero_stage.value_or(0) < 3 && elements > of_master;
  if (of_master == 0 || elements == 1 || std::ranges::find(kMoments, name) == kMoments.end()) {
    return;
  }
  if (elements == of_master || is_padded) {
    shard_.whole_moments.emplace(name);
  } else {
    shard_.odd_moments.push_back({std::string(name), group, elements, of_master});
  }
}

/// `number`: of the master that they belong to, where that is known.
void OptimizerReader::read_states_of(PickleRef group, std::optional<std::int64_t> number) {
  const PickleValue& states = pickle_[group];
  if ((states.kind != PickleKind::kDict && !states.has_pairs) || !seen_.insert(group).second) {
    return;
  }
  for (std::size_t at = 0; at + 1 < states.items.size(); at += 2) {
    const std::string_view name = archive_.text(states.items[at]);
    const PickleRef value = states.items[at + 1];
    if (name == "step") {
      read_step(value);
    } else if (const auto tensor = archive_.tensor(value); tensor && !name.empty()) {
      shard_.states[{excerpt(name), tensor->dtype}].add(*tensor);
      if (number) {
        compare(name, *tensor, *number);
      }
    }
  }
}

/// DeepSpeed's Adam and torch's, whose moments have one element a weight. A script's own optimizer
/// may have betas, too.
bool OptimizerReader::is_of_adam(PickleRef group) const {
  const auto has = [this, group](const char* key) { return pickle_.find(group, key) != 0; };
  return has("betas") && (has("bias_correction") || has("amsgrad"));
}

/// torch's `state` by number, or one dict a group, as elastic checkpoints have it.
void OptimizerReader::read_base(PickleRef base) {
  if (pickle_[base].kind == PickleKind::kList) {
    for (const PickleRef group : pickle_[base].items) {
      read_states_of(group, std::nullopt);
    }
    return;
  }
  const bool is_numbered = numbers_are_groups(base);
  const std::vector<PickleRef>& states = pickle_[pickle_.find(base, "state")].items;
  for (std::size_t at = 1; at < states.size(); at += 2) {
    read_states_of(states[at], is_numbered ? archive_.integer(states[at - 1]) : std::nullopt);
  }
  for (const PickleRef group : pickle_[pickle_.find(base, "param_groups")].items) {
    if (seen_.insert(group).second) {
      read_step(pickle_.find(group, "step"));
      shard_.is_adam |= is_of_adam(group);
    }
  }
}

OptimizerShard OptimizerReader::read() {
  shard_.zero_stage = stage();
  shard_.partitions = partitions();
  shard_.is_evenly_divided = archive_.find({kState, "ds_zero_partition_groups"}) == 0;
  read_masters();
  read_base(archive_.find({kState, "optimizer_state_dict"}));
  read_base(archive_.find({kState, "base_optimizer_state"}));
  read_step(archive_.find({kState, "base_optimizer_state_step"}));
  // Without ZeRO both lie beside the model.
  read_base(archive_.find({"optimizer", "optimizer_state_dict"}));
  read_base(archive_.find({"optimizer"}));
  read_plain_masters();
  return std::move(shard_);
}

}  // namespace

void StateTotal::add(const ArchivedTensor& tensor) noexcept {
  add({1, tensor.elements(), tensor.bytes()});
}

void StateTotal::add(const StateTotal& other) noexcept {
  tensors += other.tensors;
  elements += std::min(other.elements, ~elements);
  bytes += std::min(other.bytes, ~bytes);
}

OptimizerShard read_optimizer_shard(const TorchArchive& archive) {
  return OptimizerReader(archive).read();
}

std::optional<std::size_t> group_at(std::string_view place) {
  constexpr std::array<std::string_view, 4> kPlaces{
      "optimizer_state_dict.fp32_flat_groups[",
      "optimizer_state_dict.single_partition_of_fp32_groups[",
      "optimizer_state_dict.optimizer_state_dict.state[",
      "optimizer_state_dict.base_optimizer_state.state["};
  for (const std::string_view start : kPlaces) {
    std::size_t group = 0;
    if (place.starts_with(start)) {
      const std::string_view rest = place.substr(start.size());
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), group);
      return error == std::errc{} && end != rest.data() + rest.size() && *end == ']'
                 ? std::optional(group)
                 : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace penstock
