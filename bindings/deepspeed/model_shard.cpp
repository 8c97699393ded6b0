#include "bindings/deepspeed/model_shard.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "alloc/excerpt.h"
#include "bindings/deepspeed/tensor_walk.h"
#include "swap/plan/natural_order.h"
#include "swap/plan/tensor_name.h"

namespace penstock {
namespace {

std::string tensor_name(std::string_view name) {
  return check_tensor_name(name).has_error() ? excerpt(name) : std::string(name);
}

constexpr std::string_view kTied = "tied_modules.";

/// `weight` of `tied_modules.embedding.weight`, as a file of a layer has it; empty: it is no such.
std::string_view tied_name(const ModelTensor& tensor) {
  const std::string_view name = tensor.name;
  const std::size_t dot = name.starts_with(kTied) ? name.find('.', kTied.size()) : name.npos;
  return tensor.dtype.empty() && dot != name.npos ? name.substr(dot + 1) : std::string_view();
}

/// A module that layers of a pipeline share is named once by the pipeline, and lies in the file of
/// each of these layers: under names that `tensors` has from `first` on.
void leave_out_tied(std::vector<ModelTensor>& tensors, std::size_t first) {
  const auto end = tensors.begin() + static_cast<std::ptrdiff_t>(first);
  const auto is_tied = [](const ModelTensor& tensor) { return !tied_name(tensor).empty(); };
  if (std::none_of(tensors.begin(), end, is_tied)) {
    return;
  }
  std::set<std::pair<std::string_view, std::vector<std::uint64_t>>> of_layers;
  std::for_each(end, tensors.end(), [&of_layers](const ModelTensor& tensor) {
    const std::string_view name = tensor.name;
    of_layers.emplace(name.substr(name.find('.') + 1), tensor.shape);
  });
  const auto gone = std::remove_if(tensors.begin(), end, [&](const ModelTensor& tensor) {
    return is_tied(tensor) && of_layers.contains({tied_name(tensor), tensor.shape});
  });
  tensors.erase(gone, end);
}

class ModelReader {
 public:
  explicit ModelReader(const TorchArchive& archive)
      : archive_(archive), pickle_(archive.pickle()) {}

  ModelShard read();

 private:
  template <class Visit>
  void for_each_named(PickleRef dict, const Visit& visit) const;
  void read_module();
  void read_groups();
  void read_group(PickleRef dict);
  void read_frozen();
  void read_shared();
  void read_rest();
  void read_experts();
  void count_optimizer_parameters();
  void add(std::string_view name, std::vector<std::uint64_t> shape, const char* role);

  const TorchArchive& archive_;
  const PickleDocument& pickle_;
  ModelShard shard_;
  std::unordered_map<std::string_view, ArchivedTensor> module_;
  std::unordered_set<std::string_view> undescribed_;  // of the module
  std::unordered_set<std::string_view> seen_;
  std::unordered_set<PickleRef> groups_seen_;
};

/// Keys that are text, with their values.
template <class Visit>
void ModelReader::for_each_named(PickleRef dict, const Visit& visit) const {
  const PickleValue& value = pickle_[dict];
  if (value.kind != PickleKind::kDict && !value.has_pairs) {
    return;
  }
  for (std::size_t at = 0; at + 1 < value.items.size(); at += 2) {
    if (const PickleValue& key = pickle_[value.items[at]]; key.kind == PickleKind::kText) {
      visit(key.text, value.items[at + 1]);
    }
  }
}

void ModelReader::add(std::string_view name, std::vector<std::uint64_t> shape, const char* role) {
  ModelTensor tensor{.name = tensor_name(name), .shape = std::move(shape), .role = role};
  if (const auto stored = module_.find(name); stored != module_.end()) {
    tensor.dtype = stored->second.dtype;
    tensor.bytes = element_bytes(element_count(tensor.shape), stored->second.bits);
  }
  shard_.tensors.push_back(std::move(tensor));
}

/// Stage 3 has empty tensors of the right types here, stages 1 and 2 the 16-bit parameters.
void ModelReader::read_module() {
  for_each_named(archive_.find({"module"}), [this](std::string_view name, PickleRef value) {
    if (std::optional<ArchivedTensor> tensor = archive_.tensor(value)) {
      module_.insert_or_assign(name, std::move(*tensor));
    } else if (rebuilds_tensor(pickle_, value)) {
      undescribed_.insert(name);
    }
  });
}

void ModelReader::read_groups() {
  const PickleRef shapes = archive_.find({"param_shapes"});
  const PickleValue& groups = pickle_[shapes];
  if (groups.kind != PickleKind::kList) {
    read_group(shapes);  // before DeepSpeed 0.4 there was one
    return;
  }
  for (const PickleRef group : groups.items) {
    read_group(group);
  }
}

void ModelReader::read_group(PickleRef dict) {
  if (dict == 0 || !groups_seen_.insert(dict).second) {
    return;
  }
  ParameterGroup group;
  const auto ranks =
      static_cast<std::uint64_t>(std::max<std::int64_t>(shard_.data_parallel.value_or(1), 1));
  for_each_named(dict, [&](std::string_view name, PickleRef value) {
    std::optional<std::vector<std::uint64_t>> shape = archive_.shape(value);
    if (!shape || !seen_.insert(name).second) {
      return;
    }
    const std::uint64_t elements = element_count(*shape);
    const std::uint64_t part = elements / ranks + (elements % ranks != 0 ? 1 : 0);
    group.elements += std::min(elements, ~group.elements);
    group.elements_a_rank += std::min(part, ~group.elements_a_rank);
    group.names.push_back(tensor_name(name));
    add(name, std::move(*shape), "param");
  });
  shard_.groups.push_back(std::move(group));
}

void ModelReader::read_frozen() {
  for_each_named(archive_.find({"frozen_param_shapes"}),
                 [this](std::string_view name, PickleRef value) {
                   std::optional<std::vector<std::uint64_t>> shape = archive_.shape(value);
                   if (shape && seen_.insert(name).second) {
                     add(name, std::move(*shape), "frozen");
                   }
                 });
}

void ModelReader::read_shared() {
  for_each_named(archive_.find({"shared_params"}), [this](std::string_view name, PickleRef value) {
    const std::string_view source = archive_.text(value);
    if (source.empty() || !seen_.insert(name).second) {
      return;
    }
    shard_.tensors.push_back(
        {.name = tensor_name(name), .role = "shared", .same_as = tensor_name(source)});
  });
}

/// Buffers; without ZeRO everything. Stage 1 saves nothing else of parameters that are not trained.
void ModelReader::read_rest() {
  std::unordered_set<std::string_view> buffers;
  for (const PickleRef name : pickle_[archive_.find({"buffer_names"})].items) {
    buffers.insert(archive_.text(name));
  }
  const char* const role = shard_.groups.empty() ? "param" : "frozen";
  for (const auto& [name, tensor] : module_) {
    if (seen_.insert(name).second) {
      add(name, tensor.shape, buffers.contains(name) ? "buffer" : role);
    }
  }
  for (const std::string_view name : undescribed_) {
    if (!seen_.contains(name)) {
      shard_.undescribed.push_back(tensor_name(name));
    }
  }
}

/// Of a layer of AutoEP at stage 3 and below, shapes are those of one rank's experts.
void ModelReader::read_experts() {
  for (const PickleRef count : pickle_[archive_.find({"num_experts"})].items) {
    const std::int64_t experts = archive_.integer(count).value_or(0);
    shard_.experts.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(experts, 0)));
  }
  for (const PickleRef layer : pickle_[archive_.find({"ds_autoep_layers"})].items) {
    const std::string start =
        std::string(archive_.text(pickle_.find(layer, "expert_key_prefix"))) + ".";
    const auto all = archive_.integer(pickle_.find(layer, "num_experts"));
    const auto local = archive_.integer(pickle_.find(layer, "num_local_experts"));
    for (ModelTensor& tensor : shard_.tensors) {
      if (all && local && *all > *local && *local > 0 && tensor.name.starts_with(start) &&
          !tensor.shape.empty() && tensor.shape[0] == static_cast<std::uint64_t>(*local)) {
        tensor.shape[0] = static_cast<std::uint64_t>(*all);
      }
    }
  }
}

void ModelReader::count_optimizer_parameters() {
  std::unordered_set<PickleRef> counted;  // a forged file may name one large group many times
  for (const std::string_view around : {"", "optimizer_state_dict"}) {
    const PickleRef groups = around.empty() ? archive_.find({"optimizer", "param_groups"})
                                            : archive_.find({"optimizer", around, "param_groups"});
    for (const PickleRef group : pickle_[groups].items) {
      if (counted.insert(group).second) {
        shard_.optimizer_parameters += pickle_[pickle_.find(group, "params")].items.size();
      }
    }
  }
}

ModelShard ModelReader::read() {
  shard_.step = archive_.integer(archive_.find({"global_steps"}));
  shard_.data_parallel = archive_.integer(archive_.find({"dp_world_size"}));
  shard_.model_parallel = archive_.integer(archive_.find({"mp_world_size"}));
  shard_.zero_stage = archive_.integer(archive_.find({"ds_config", "zero_optimization", "stage"}));
  shard_.version = excerpt(archive_.text(archive_.find({"ds_version"})));
  shard_.has_optimizer = archive_.find({"optimizer"}) != 0;
  shard_.is_pipelines = archive_.find({"module"}) == 0;
  const PickleRef mics = archive_.find({"ds_config", "zero_optimization", "mics_shard_size"});
  shard_.is_evenly_divided = pickle_[archive_.find({"num_experts"})].items.empty() &&
                             archive_.integer(mics).value_or(0) <= 0;
  read_module();
  read_groups();
  read_frozen();
  read_shared();
  read_rest();
  read_experts();
  count_optimizer_parameters();
  std::ranges::sort(shard_.tensors, natural_less, &ModelTensor::name);
  std::ranges::sort(shard_.undescribed, natural_less);
  return std::move(shard_);
}

}  // namespace

ModelShard read_model_shard(const TorchArchive& archive) {
  return ModelReader(archive).read();
}

void merge_tensors(std::vector<ModelTensor>& tensors, std::vector<ModelTensor> found) {
  std::unordered_map<std::string, std::size_t> untyped;
  const std::size_t before = tensors.size();
  for (std::size_t at = 0; at < before; ++at) {
    if (tensors[at].dtype.empty() && tensors[at].same_as.empty()) {
      untyped.emplace(tensors[at].name, at);
    }
  }
  for (ModelTensor& tensor : found) {
    auto known = untyped.find(tensor.name);
    if (known == untyped.end()) {
      const std::size_t dot = tensor.name.find_last_of('.');
      const bool is_part =
          dot != std::string::npos && dot + 1 < tensor.name.size() &&
          tensor.name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
      known = is_part ? untyped.find(tensor.name.substr(0, dot)) : untyped.end();
    }
    if (known == untyped.end()) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    ModelTensor& whole = tensors[known->second];
    whole.dtype = std::move(tensor.dtype);
    whole.bytes += std::min(tensor.bytes, ~whole.bytes);
  }
  leave_out_tied(tensors, before);
}

std::vector<ModelTensor> read_plain_tensors(const TorchArchive& archive,
                                            const std::string& prefix) {
  std::vector<ModelTensor> tensors;
  archive.for_each_tensor([&](const std::string& place, const ArchivedTensor& tensor) {
    tensors.push_back({.name = prefix + tensor_name(place),
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .role = "param",
                       .bytes = tensor.bytes()});
  });
  return tensors;
}

}  // namespace penstock
