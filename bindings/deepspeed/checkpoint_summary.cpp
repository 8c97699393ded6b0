#include "bindings/deepspeed/checkpoint_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "bindings/deepspeed/checkpoint_files.h"
#include "bindings/deepspeed/checkpoint_groups.h"
#include "bindings/deepspeed/checkpoint_notes.h"
#include "bindings/deepspeed/torch_archive.h"
#include "swap/plan/natural_order.h"

namespace penstock {
namespace {

// More is a damaged number, not a job.
constexpr std::int64_t kRanksMax = 65'536;
constexpr std::size_t kFilesMax = 1'000'000;

class Summarizer {
 public:
  explicit Summarizer(CheckpointPlace place) { summary_.place = std::move(place); }

  Result<CheckpointSummary> run();

 private:
  void read_models();
  void read_model(CheckpointFile& file);
  void read_optimizers();
  void read_optimizer(CheckpointFile& file, const TorchArchive& archive);
  void read_others();
  std::optional<TorchArchive> open(CheckpointFile& file) const;
  bool is_loaded(const CheckpointFile& file) const;
  void settle_ranks();
  void judge();
  void judge_signatures();
  void judge_steps();
  void note_ranks();
  void note_undescribed(const std::vector<std::string>& names);

  void cannot(std::string why) { summary_.resumption.obstacles.push_back(std::move(why)); }

  CheckpointSummary summary_;
  std::map<std::int64_t, std::string> steps_;  // and a file that says so
  std::optional<std::int64_t> data_parallel_;
  std::optional<std::int64_t> model_parallel_;
  std::optional<std::int64_t> config_stage_;
  std::optional<std::int64_t> partitions_;
  bool has_model_ = false;
  bool has_optimizer_inside_ = false;
  CheckpointGroups groups_;
};

std::optional<TorchArchive> Summarizer::open(CheckpointFile& file) const {
  Result<TorchRecords> records = read_torch_records(file.path);
  if (records.has_error()) {
    file.problem = records.error().message;
    return std::nullopt;
  }
  file.records = records->directory.records.size();
  file.has_checksums = records->has_checksums;
  Result<TorchArchive> archive = TorchArchive::read(file.path, std::move(*records));
  if (archive.has_error()) {
    file.problem = archive.error().message;
    return std::nullopt;
  }
  file.signature = read_signature(*archive);
  archive->for_each_tensor([&](const std::string& place, const ArchivedTensor& tensor) {
    const std::string problem = file.problem.empty() ? archive->problem(tensor) : "";
    if (!problem.empty()) {
      file.problem = fmt::format("{}: tensor {}: {}", file.path, excerpt(place), problem);
    }
  });
  return std::move(*archive);
}

/// A save by fewer ranks than the one before at the same tag leaves files that load_checkpoint()
/// does not ask for. DeepSpeed's scripts take all that is there.
bool Summarizer::is_loaded(const CheckpointFile& file) const {
  return !file.is_model_or_optimizer() || data_parallel_.value_or(0) < 1 ||
         file.shard->rank.value_or(0) < *data_parallel_;
}

void Summarizer::read_model(CheckpointFile& file) {
  const std::optional<TorchArchive> archive = open(file);
  if (!archive || !is_loaded(file)) {
    return;
  }
  ModelShard shard = read_model_shard(*archive);
  if (file.shard->rank.value_or(0) == 0) {
    promise_files(shard, *file.shard, summary_.promise);
  }
  if (shard.step) {
    steps_.emplace(*shard.step, file.name);
  }
  if (has_model_ || file.shard->mp_rank != 0) {
    return;
  }
  has_model_ = true;
  summary_.step = shard.step;
  summary_.version = std::move(shard.version);
  data_parallel_ = shard.data_parallel;
  model_parallel_ = shard.model_parallel;
  config_stage_ = shard.zero_stage;
  summary_.groups = std::move(shard.groups);
  summary_.tensors = std::move(shard.tensors);
  note_undescribed(shard.undescribed);
  has_optimizer_inside_ = shard.has_optimizer;
  groups_.add(shard);
  if (shard.has_optimizer) {
    read_optimizer(file, *archive);
  }
}

void Summarizer::read_models() {
  for (CheckpointFile& file : summary_.files) {
    if (file.shard && file.shard->kind == ShardKind::kModel) {
      read_model(file);
    }
  }
}

void Summarizer::read_optimizer(CheckpointFile& file, const TorchArchive& archive) {
  const OptimizerShard shard = read_optimizer_shard(archive);
  if (shard.zero_stage) {
    summary_.zero_stage = shard.zero_stage;
  }
  partitions_ = std::max(partitions_, shard.partitions);
  summary_.optimizer_steps.insert(shard.steps.begin(), shard.steps.end());
  for (const auto& [kind, total] : shard.states) {
    summary_.states[kind].add(total);
  }
  if (file.shard->kind != ShardKind::kOptimizer) {
    return;
  }
  groups_.add(shard);
}

void Summarizer::read_optimizers() {
  for (CheckpointFile& file : summary_.files) {
    if (!file.shard || file.shard->kind != ShardKind::kOptimizer) {
      continue;
    }
    if (const std::optional<TorchArchive> archive = open(file); archive && is_loaded(file)) {
      read_optimizer(file, *archive);
    }
  }
}

/// Experts, layers of a pipeline, and what the trainer has put beside.
void Summarizer::read_others() {
  std::vector<ModelTensor> found;
  for (CheckpointFile& file : summary_.files) {
    if (file.is_model_or_optimizer()) {
      continue;
    }
    if (!file.shard) {
      if (file.is_safetensors()) {
        file.has_checksums = false;
      } else {
        (void)open(file);
      }
      continue;
    }
    if (const std::optional<TorchArchive> archive = open(file);
        archive && file.name.ends_with("model_states.pt")) {
      const bool is_layer = file.shard->kind == ShardKind::kLayer;
      const std::string prefix = is_layer ? fmt::format("{}.", file.shard->layer) : "";
      std::vector<ModelTensor> tensors = read_plain_tensors(*archive, prefix);
      summary_.layer_tensors += is_layer ? tensors.size() : 0;
      if (file.shard->mp_rank == 0) {
        std::ranges::move(tensors, std::back_inserter(found));
      }
    }
  }
  merge_tensors(summary_.tensors, std::move(found));
  std::ranges::stable_sort(summary_.tensors, natural_less, &ModelTensor::name);
}

/// What no file says is taken from names.
void Summarizer::settle_ranks() {
  std::uint64_t ranks_there = 1;
  std::uint64_t mp_there = 1;
  bool is_partitioned = false;
  bool has_optimizers = false;
  for (const CheckpointFile& file : summary_.files) {
    if (file.shard && file.shard->rank && file.shard->kind != ShardKind::kExpert) {
      ranks_there = std::max<std::uint64_t>(ranks_there, *file.shard->rank + std::uint64_t{1});
      is_partitioned |= file.shard->kind == ShardKind::kModel;
      has_optimizers |= file.shard->kind == ShardKind::kOptimizer;
    }
    if (file.shard && file.shard->kind == ShardKind::kModel) {
      mp_there = std::max<std::uint64_t>(mp_there, file.shard->mp_rank + std::uint64_t{1});
    }
  }
  const auto believed = [](std::optional<std::int64_t> said, std::uint64_t there) {
    return said && *said >= 1 && *said <= kRanksMax ? static_cast<std::uint64_t>(*said)
                                                    : std::min<std::uint64_t>(there, kRanksMax);
  };
  summary_.data_parallel = believed(data_parallel_ ? data_parallel_ : partitions_, ranks_there);
  summary_.model_parallel =
      std::max(believed(model_parallel_, 1), std::min<std::uint64_t>(mp_there, kRanksMax));
  if (summary_.data_parallel * summary_.model_parallel > kFilesMax) {
    summary_.model_parallel = 1;
  }
  if (!summary_.zero_stage) {
    summary_.zero_stage = is_partitioned   ? 3
                          : config_stage_  ? *config_stage_
                          : has_optimizers ? 2
                                           : 0;
  }
}

/// Of the files that a load would read: whether they are of one save, and where they were.
void Summarizer::judge_signatures() {
  const CheckpointFile* first = nullptr;
  std::vector<const CheckpointFile*> misplaced;
  for (CheckpointFile& file : summary_.files) {
    if (!file.is_model_or_optimizer() || !is_loaded(file) || !file.signature) {
      continue;
    }
    first = first == nullptr ? &file : first;
    const std::uint32_t rank = file.signature->rank;
    if (summary_.model_parallel == 1 && rank != file.shard->rank.value_or(rank)) {
      file.misplaced = fmt::format("it was saved by rank {}", rank);
    } else if (file.signature->save != first->signature->save) {
      file.misplaced = fmt::format("it is of another save than {}", excerpt(first->name));
    }
    if (!file.misplaced.empty()) {
      misplaced.push_back(&file);
    }
  }
  if (!misplaced.empty()) {
    cannot(fmt::format("{} of its files are not where they belong; of {}: {}", misplaced.size(),
                       excerpt(misplaced.front()->name), misplaced.front()->misplaced));
  }
}

void Summarizer::judge_steps() {
  if (steps_.size() > 1) {
    const auto& [first, first_file] = *steps_.begin();
    const auto& [last, last_file] = *steps_.rbegin();
    cannot(fmt::format("its files are of different steps: {} is of {}, {} of {}",
                       excerpt(first_file), first, excerpt(last_file), last));
  }
  if (summary_.optimizer_steps.size() > 1) {
    summary_.notes.push_back(
        fmt::format("its optimizer states were stepped between {} and {} times",
                    *summary_.optimizer_steps.begin(), *summary_.optimizer_steps.rbegin()));
  }
}

void Summarizer::judge() {
  const bool with_zero = summary_.zero_stage.value_or(0) > 0 || groups_.optimizers_read() > 0;
  const auto unreadable = std::ranges::count_if(summary_.files, [this](const auto& file) {
    return file.shard && !file.problem.empty() && is_loaded(file);
  });
  if (!summary_.missing.empty()) {
    cannot(fmt::format("{} of its files are missing", summary_.missing.size()));
  }
  if (unreadable > 0) {
    cannot(fmt::format("{} of its files cannot be read", unreadable));
  }
  judge_signatures();
  judge_steps();
  const bool is_whole = summary_.missing.empty() && unreadable == 0;
  if (with_zero && is_whole && !summary_.is_universal) {
    std::ranges::for_each(groups_.obstacles(summary_), [this](const auto& why) { cannot(why); });
    if (std::string doubt = groups_.doubt(); !doubt.empty()) {
      summary_.notes.push_back(std::move(doubt));
    }
  }
  if (!with_zero && is_whole && !has_optimizer_inside_) {
    cannot("it holds no optimizer states");
  }
  // Copies beside whole files are of an older checkpoint at the same tag.
  if (summary_.offloaded_files > 0 && !summary_.resumption.obstacles.empty()) {
    cannot(
        fmt::format("stock DeepSpeed saved it with optimizer states on NVMe: the {} in "
                    "{} copies of swap files have neither step counts nor small sub-groups",
                    format_bytes(summary_.offloaded_bytes), summary_.offloaded_files));
  }
  if (with_zero && !summary_.is_universal) {
    summary_.resumption.world_size = summary_.data_parallel * summary_.model_parallel;
  }
}

void Summarizer::note_ranks() {
  for (const CheckpointFile& file : summary_.files) {
    summary_.surplus_files += is_loaded(file) ? 0U : 1U;
  }
  if (summary_.surplus_files > 0) {
    summary_.notes.push_back(fmt::format(
        "{} of its files are of an earlier save by more ranks, of ranks from {} on; "
        "load_checkpoint() does not read them, and no total counts them. ds_to_universal.py and "
        "zero_to_fp32.py read them, or refuse the directory: remove them first",
        summary_.surplus_files, summary_.data_parallel));
  }
  if (data_parallel_ && static_cast<std::uint64_t>(*data_parallel_) != summary_.data_parallel) {
    summary_.notes.push_back(
        fmt::format("it claims {} data-parallel ranks, which is not believed", *data_parallel_));
  }
}

void Summarizer::note_undescribed(const std::vector<std::string>& names) {
  if (!names.empty()) {
    summary_.notes.push_back(
        fmt::format("not listed and not counted: tensors that are quantized, sparse, nested or on "
                    "the meta device ({} of them, the first is {})",
                    names.size(), names.front()));
  }
}

Result<CheckpointSummary> Summarizer::run() {
  PENSTOCK_TRY(list_files(summary_));
  read_models();
  read_optimizers();
  read_others();
  settle_ranks();
  find_missing(summary_);
  judge();
  note_contents(summary_);
  note_ranks();
  return std::move(summary_);
}

}  // namespace

std::uint64_t CheckpointSummary::tensor_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const ModelTensor& tensor : tensors) {
    bytes += std::min(tensor.bytes, ~bytes);
  }
  return bytes;
}

std::uint64_t CheckpointSummary::file_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const CheckpointFile& file : files) {
    bytes += file.bytes;
  }
  return bytes;
}

Result<CheckpointSummary> summarize_checkpoint(CheckpointPlace place) {
  return Summarizer(std::move(place)).run();
}

}  // namespace penstock
