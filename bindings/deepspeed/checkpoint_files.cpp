#include "bindings/deepspeed/checkpoint_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "bindings/deepspeed/directory_listing.h"
#include "swap/plan/natural_order.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 4> kEndings{".pt", ".pth", ".bin", ".safetensors"};
// Of weights: other programs have indexes, too.
constexpr std::array<std::string_view, 2> kIndexes{".safetensors.index.json", ".bin.index.json"};
constexpr std::string_view kOffloaded = "offloaded_tensors";
constexpr std::string_view kUniversal = "zero";
// More are damaged numbers, not a model.
constexpr std::uint64_t kExpertsMax = 100'000;
constexpr std::uint32_t kLayersMax = 10'000;

bool ends_in_one_of(std::string_view name, std::span<const std::string_view> endings) {
  return std::ranges::any_of(endings, [name](auto ending) { return name.ends_with(ending); });
}

bool is_left_over(std::string_view name) {
  return (name.starts_with('.') && name.ends_with(".partial")) || name.ends_with(".tmp");
}

std::uint64_t bytes_at(const std::string& path) {
  struct ::stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode)
             ? static_cast<std::uint64_t>(facts.st_size)
             : 0;
}

/// Folders of ranks with copies of swap files: /offloaded_tensors/rank0/….
void count_offloaded(const std::string& directory, CheckpointSummary& summary) {
  const Result<std::vector<std::string>> ranks = list_directory(directory);
  for (const std::string& rank : ranks ? *ranks : std::vector<std::string>()) {
    const std::string path = directory + "/" + rank;
    if (!is_directory(path)) {
      continue;
    }
    const Result<std::vector<std::string>> names = list_directory(path);
    for (const std::string& name : names ? *names : std::vector<std::string>()) {
      ++summary.offloaded_files;
      summary.offloaded_bytes += bytes_at(path + "/" + name);
    }
  }
}

/// Files of a universal checkpoint: a folder a parameter, a file a state.
Result<void> list_states(const std::string& directory, const std::string& prefix,
                         CheckpointSummary& summary) {
  Result<std::vector<std::string>> names = list_directory(directory);
  PENSTOCK_TRY(names);
  std::ranges::sort(*names, natural_less);
  for (const std::string& name : *names) {
    const std::string path = directory + "/" + name;
    if (is_directory_itself(path)) {
      PENSTOCK_TRY(list_states(path, prefix + name + "/", summary));
    } else if (name.ends_with(".pt")) {
      summary.files.push_back({.name = prefix + name,
                               .path = path,
                               .shard = ShardName{.kind = ShardKind::kState},
                               .bytes = bytes_at(path)});
    }
  }
  return {};
}

Result<void> list_folder(const std::string& directory, const std::string& prefix, bool is_tag,
                         CheckpointSummary& summary) {
  Result<std::vector<std::string>> names = list_directory(directory);
  PENSTOCK_TRY(names);
  std::ranges::sort(*names, natural_less);
  for (const std::string& name : *names) {
    const std::string path = directory + "/" + name;
    if (is_tag && name == kOffloaded && is_directory(path)) {
      count_offloaded(path, summary);
    } else if (is_tag && name == kUniversal && is_directory(path)) {
      summary.is_universal = true;
      PENSTOCK_TRY(list_states(path, prefix + name + "/", summary));
    } else if (is_left_over(name)) {
      summary.leftovers.push_back(prefix + name);
    } else if (ends_in_one_of(name, kIndexes)) {
      summary.indexes.push_back(prefix + name);
    } else if (ends_in_one_of(name, kEndings)) {
      summary.files.push_back({.name = prefix + name,
                               .path = path,
                               .shard = is_tag ? parse_shard_name(name) : std::nullopt,
                               .bytes = bytes_at(path)});
    }
  }
  return {};
}

/// Of a universal checkpoint made from stage 3, which is one of Adam; of others the masters.
void find_missing_states(const std::string& folder, CheckpointSummary& summary) {
  std::unordered_set<std::string> there;
  for (const CheckpointFile& file : summary.files) {
    there.insert(file.name);
  }
  const auto expect = [&](std::string name) {
    if (!there.contains(name)) {
      summary.missing.push_back(std::move(name));
    }
  };
  const bool is_partitioned = summary.zero_stage.value_or(0) >= 3;
  const std::string states = fmt::format("{}{}/", folder, kUniversal);
  expect(states + "optimizer_state.pt");
  for (const ParameterGroup& group : summary.groups) {
    for (const std::string& name : group.names) {
      expect(fmt::format("{}{}/fp32.pt", states, name));
      if (is_partitioned) {
        expect(fmt::format("{}{}/exp_avg.pt", states, name));
        expect(fmt::format("{}{}/exp_avg_sq.pt", states, name));
      }
    }
  }
}

/// Every layer that is spoken of, or has a file, has one for each rank of the model axis.
void find_missing_layers(const std::string& folder, CheckpointSummary& summary) {
  std::set<std::uint32_t> layers = summary.promise.layers;
  std::set<std::string> endings;
  std::unordered_set<std::string> there;
  bool is_readable = true;
  for (const CheckpointFile& file : summary.files) {
    if (file.shard && file.shard->kind == ShardKind::kLayer) {
      is_readable &= file.problem.empty();
      const std::size_t name = file.name.find_last_of('/') + 1;
      endings.insert(file.name.substr(file.name.find('-', name)));
      layers.insert(file.shard->layer);
      there.insert(file.name.substr(name));
    }
  }
  if (endings.empty()) {
    endings.insert("-model_states.pt");
  }
  if (is_readable && summary.layer_tensors < summary.promise.layer_tensors) {
    // Layers without parameters have no file either, so these are the likely ones.
    const std::size_t before = layers.size();
    const std::uint32_t end = layers.empty() ? 0 : std::min(*layers.rbegin(), kLayersMax) + 1;
    for (std::uint32_t layer = 0; layer < end; ++layer) {
      layers.insert(layer);
    }
    if (layers.size() == before) {
      layers.insert(end);
    }
  }
  for (const std::uint32_t layer : layers) {
    for (const std::string& ending : endings) {
      std::string name = fmt::format("layer_{:02}{}", layer, ending);
      if (!there.contains(name)) {
        summary.missing.push_back(folder + name);
      }
    }
  }
}

std::vector<ShardName> promised_experts(const CheckpointSummary& summary) {
  std::vector<ShardName> experts = summary.promise.experts;
  if (experts.empty() || summary.zero_stage.value_or(0) > 0) {
    return experts;
  }
  // Without ZeRO optimizers of experts have files of their own.
  std::uint32_t ranks = 1;
  for (const CheckpointFile& file : summary.files) {
    if (file.shard && file.shard->kind == ShardKind::kExpert && file.shard->rank) {
      ranks = std::max(ranks, std::min(*file.shard->rank, kLayersMax) + 1);
    }
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    experts.push_back({.kind = ShardKind::kExpert, .rank = rank});
  }
  return experts;
}

}  // namespace

/// Stage 3 has experts in the files of ranks.
void promise_files(const ModelShard& model, const ShardName& shard, Promise& promise) {
  for (std::uint32_t layer = 0; layer < model.experts.size() && !shard.rank; ++layer) {
    for (std::uint32_t expert = 0; expert < std::min(model.experts[layer], kExpertsMax); ++expert) {
      if (promise.experts.size() < kExpertsMax) {
        promise.experts.push_back({.kind = ShardKind::kExpert,
                                   .mp_rank = shard.mp_rank,
                                   .layer = layer,
                                   .expert = expert});
      }
    }
  }
  if (!model.is_pipelines) {
    return;
  }
  promise.layer_tensors += model.groups.empty() ? model.optimizer_parameters : 0;
  for (const ParameterGroup& group : model.groups) {
    for (const std::string& name : group.names) {
      std::uint32_t layer = 0;
      const char* const end = name.data() + name.size();
      const auto [rest, error] = std::from_chars(name.data(), end, layer);
      if (error == std::errc{} && rest != end && *rest == '.' && layer <= kLayersMax) {
        promise.layers.insert(layer);
      }
    }
  }
}

Result<void> list_files(CheckpointSummary& summary) {
  const CheckpointPlace& place = summary.place;
  summary.directory = place.save_directory.empty() ? place.tag_directory : place.save_directory;
  const std::string prefix = place.save_directory.empty() ? "" : place.tag + "/";
  PENSTOCK_TRY(list_folder(place.tag_directory, prefix, true, summary));
  if (!place.save_directory.empty()) {
    PENSTOCK_TRY(list_folder(place.save_directory, "", false, summary));
  }
  return {};
}

void find_missing(CheckpointSummary& summary) {
  std::unordered_set<std::string> there;
  std::string optimizer_prefix;
  for (const CheckpointFile& file : summary.files) {
    if (!file.shard || (file.shard->kind != ShardKind::kExpert && !file.is_model_or_optimizer())) {
      continue;
    }
    // The name by which DeepSpeed asks for it, whatever older versions wrote.
    there.insert(shard_file_name(*file.shard));
    if (file.shard->kind == ShardKind::kOptimizer) {
      optimizer_prefix = file.shard->prefix;
    }
  }
  const std::string folder = summary.place.save_directory.empty() ? "" : summary.place.tag + "/";
  if (summary.is_universal) {
    find_missing_states(folder, summary);
  }
  const auto expect = [&](const ShardName& shard) {
    const std::string name = shard_file_name(shard);
    if (!there.contains(name)) {
      summary.missing.push_back(folder + name);
    }
  };
  if (!summary.is_universal) {  // which has all of it in its states
    std::ranges::for_each(promised_experts(summary), expect);
    find_missing_layers(folder, summary);
  }
  const bool is_partitioned = summary.zero_stage.value_or(0) >= 3;
  for (std::uint32_t mp = 0; mp < summary.model_parallel; ++mp) {
    if (!is_partitioned) {
      expect({.kind = ShardKind::kModel, .mp_rank = mp});
    }
    for (std::uint32_t rank = 0; rank < summary.data_parallel; ++rank) {
      if (is_partitioned) {
        expect({.kind = ShardKind::kModel, .rank = rank, .mp_rank = mp});
      }
      // bf16 without ZeRO has files of its own kind, too.
      if ((summary.zero_stage.value_or(0) > 0 || !optimizer_prefix.empty()) &&
          !summary.is_universal) {
        expect({.kind = ShardKind::kOptimizer,
                .rank = rank,
                .mp_rank = mp,
                .prefix = optimizer_prefix});
      }
    }
  }
}

}  // namespace penstock
