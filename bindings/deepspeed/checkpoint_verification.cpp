#include "bindings/deepspeed/checkpoint_verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "alloc/excerpt.h"
#include "bindings/archive/record_check.h"
#include "bindings/deepspeed/model_weights.h"
#include "bindings/deepspeed/optimizer_shard.h"
#include "bindings/deepspeed/torch_archive.h"
#include "bindings/inventory/input_file.h"
#include "bindings/inventory/safetensors_header.h"
#include "bindings/inventory/safetensors_index.h"
#include "io/file_system.h"

namespace penstock {
namespace {

// What accelerate calls its files of torch.save().
constexpr std::array<std::string_view, 4> kAccelerates{"optimizer", "scheduler", "sampler",
                                                       "pytorch_model"};
constexpr std::uint64_t kStartBytes = 4096;

/// Whether torch.save() writes files of this name.
bool is_torchs(std::string_view path) {
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  return name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with("training_args.bin") ||
         is_weights(name) || std::ranges::any_of(kAccelerates, [name](std::string_view start) {
           return name.starts_with(start);
         });
}

/// What lies beside a checkpoint may be anything that is called `.bin`. An archive begins with PK,
/// what torch has written before 1.6 with the mark of a pickle. Zeros are what a power cut leaves
/// of any file.
bool is_foreign(const CheckpointFile& file) {
  const Result<InputFile> opened = InputFile::open(file.path);
  const Result<std::string> start =
      opened.has_value() ? opened->read(0, std::min(opened->size_bytes(), kStartBytes))
                         : Result<std::string>(opened.error());
  if (start.has_error() || start->starts_with("PK") ||
      start->find_first_not_of('\0') == std::string::npos) {
    return false;
  }
  return !is_torchs(file.name) || start->front() == '\x80';
}

/// `model-00001-of-00003.safetensors`.
struct NumberedShard {
  std::string stem;    // with its folder
  std::string ending;  // with its dot
  std::uint32_t number = 0;
  std::uint32_t count = 0;

  std::string name(std::uint32_t of_number) const {
    return fmt::format("{}-{:05}-of-{:05}{}", stem, of_number, count, ending);
  }
  std::string index() const { return stem + ending + ".index.json"; }
};

std::optional<NumberedShard> numbered_shard(const std::string& name) {
  constexpr std::size_t kTailBytes = std::string_view("-00001-of-00003").size();
  const std::size_t dot = name.find_last_of('.');
  if (dot == std::string::npos || dot < kTailBytes ||
      !is_weights(name.substr(name.find_last_of('/') + 1))) {
    return std::nullopt;
  }
  NumberedShard shard{.stem = name.substr(0, dot - kTailBytes), .ending = name.substr(dot)};
  const char* const tail = name.data() + dot - kTailBytes;
  std::from_chars(tail + 1, tail + 6, shard.number);
  std::from_chars(tail + 10, tail + 15, shard.count);
  return shard.name(shard.number) == name ? std::optional(shard) : std::nullopt;
}

/// Keys of a state dict. Two that share a tensor are both there.
std::unordered_set<std::string_view> names_in(const TorchArchive& archive) {
  const PickleDocument& pickle = archive.pickle();
  const std::vector<PickleRef>& items = pickle[pickle.root()].items;
  std::unordered_set<std::string_view> names;
  for (std::size_t at = 0; at < items.size(); at += 2) {
    names.insert(archive.text(items[at]));
  }
  return names;
}

struct Claim {
  std::string place;
  std::vector<std::string> tensors;
};

class Verifier {
 public:
  Verifier(const CheckpointSummary& summary, IoQueue& queue,
           const std::function<void(std::uint64_t, std::uint64_t)>& on_progress)
      : summary_(summary), queue_(queue), on_progress_(on_progress) {}

  Result<CheckpointVerification> run();

 private:
  Result<void> verify(const CheckpointFile& file);
  void verify_index(const std::string& name);
  void verify_bin_index(const std::string& path, const std::string& name);
  void verify_safetensors_index(const std::string& path, const std::string& name);
  bool is_damaged(const std::string& shard) const;
  void find_shards_without_index();
  Result<void> verify_records(const CheckpointFile& file, TorchRecords records);
  std::map<std::string, Claim> claims_of(const CheckpointFile& file, TorchRecords records) const;
  void blame(const CheckpointFile& file, std::string reason);

  const CheckpointSummary& summary_;
  IoQueue& queue_;
  const std::function<void(std::uint64_t, std::uint64_t)>& on_progress_;
  CheckpointVerification result_;
  std::uint64_t all_bytes_ = 0;
};

void Verifier::blame(const CheckpointFile& file, std::string reason) {
  result_.damaged.push_back({.file = file.name, .path = file.path, .reason = std::move(reason)});
}

/// Which tensors lie in which record. A flat tensor has the parameters of its group.
std::map<std::string, Claim> Verifier::claims_of(const CheckpointFile& file,
                                                 TorchRecords records) const {
  std::map<std::string, Claim> claims;
  const Result<TorchArchive> archive = TorchArchive::read(file.path, std::move(records));
  if (archive.has_error()) {
    return claims;
  }
  archive->for_each_tensor([&](const std::string& place, const ArchivedTensor& tensor) {
    Claim& claim = claims[tensor.record];
    if (claim.place.empty()) {
      claim.place = place;
    }
    const std::optional<std::size_t> group = group_at(place);
    if (group && *group < summary_.groups.size()) {
      claim.tensors = summary_.groups[*group].names;
    } else if (place.starts_with("module.") || place.starts_with("frozen_param_fragments.")) {
      claim.tensors.push_back(place.substr(place.find('.') + 1));
    }
  });
  return claims;
}

Result<void> Verifier::verify_records(const CheckpointFile& file, TorchRecords records) {
  const std::vector<ZipRecord> all = records.directory.records;
  const bool has_checksums = records.has_checksums;
  const std::uint64_t before = result_.bytes;
  Result<std::vector<DamagedRecord>> damaged = check_zip_records(
      os_file_system(), queue_, file.path, all, [this, before](std::uint64_t done_bytes) {
        if (on_progress_) {
          on_progress_(before + done_bytes, all_bytes_);
        }
      });
  if (damaged.has_error()) {
    blame(file, damaged.error().message);
    return {};
  }
  result_.records += all.size();
  for (const ZipRecord& record : all) {
    result_.bytes += record.bytes;
  }
  if (!has_checksums) {
    std::erase_if(*damaged, [](const DamagedRecord& record) { return !record.is_unreadable; });
    result_.without_checksums.push_back(file.name);
  }
  if (!file.problem.empty() && damaged->empty()) {
    blame(file, file.problem);
  }
  if (damaged->empty()) {
    return {};
  }
  std::map<std::string, Claim> claims = claims_of(file, std::move(records));
  for (DamagedRecord& record : *damaged) {
    Claim& claim = claims[record.record.name];
    result_.damaged.push_back({.file = file.name,
                               .path = file.path,
                               .record = record.record.name,
                               .place = claim.place,
                               .tensors = claim.tensors,
                               .reason = std::move(record.reason)});
  }
  return {};
}

Result<void> Verifier::verify(const CheckpointFile& file) {
  ++result_.files;
  if (file.is_safetensors()) {
    const Result<Checkpoint> header = load_safetensors(file.path);
    if (header.has_error()) {
      blame(file, header.error().message);
    }
    result_.without_checksums.push_back(file.name);
    return {};
  }
  if (!file.shard && is_foreign(file)) {
    result_.without_checksums.push_back(file.name);
    return {};
  }
  Result<TorchRecords> records = read_torch_records(file.path);
  if (records.has_error()) {
    blame(file, records.error().message);
    return {};
  }
  return verify_records(file, std::move(*records));
}

/// Shards of weights, of which only the index knows that they must be there.
void Verifier::verify_index(const std::string& name) {
  const std::string path = summary_.directory + "/" + name;
  const Result<std::vector<std::string>> missing = missing_shards(path);
  if (missing.has_error()) {
    blame({.name = name, .path = path}, missing.error().message);
    return;
  }
  const std::string folder = name.substr(0, name.find_last_of('/') + 1);
  for (const std::string& shard : *missing) {
    result_.missing.push_back(folder + shard);
  }
  if (missing->empty() && name.ends_with(".safetensors.index.json")) {
    verify_safetensors_index(path, name);
  } else if (missing->empty()) {
    verify_bin_index(path, name);
  }
}

bool Verifier::is_damaged(const std::string& shard) const {
  return std::ranges::find(result_.damaged, shard, &DamagedPart::file) != result_.damaged.end();
}

/// A damaged shard has been named already, and an index that it is in cannot be read.
void Verifier::verify_safetensors_index(const std::string& path, const std::string& name) {
  const Result<Checkpoint> whole = load_indexed_checkpoint(path);
  if (whole.has_value()) {
    return;
  }
  const Result<ShardedNames> shards = read_weight_map(path);
  const std::string folder = name.substr(0, name.find_last_of('/') + 1);
  const auto is_named = [&](const auto& shard) { return is_damaged(folder + shard.first); };
  if (shards.has_error() || std::ranges::none_of(*shards, is_named)) {
    blame({.name = name, .path = path}, whole.error().message);
  }
}

void Verifier::verify_bin_index(const std::string& path, const std::string& name) {
  const Result<ShardedNames> shards = read_weight_map(path);
  for (const auto& [shard, names] : shards ? *shards : ShardedNames()) {
    const Result<TorchArchive> archive =
        TorchArchive::read(path.substr(0, path.find_last_of('/') + 1) + shard);
    if (archive.has_error()) {
      continue;  // it has been named already
    }
    const std::unordered_set<std::string_view> there = names_in(*archive);
    std::set<std::string> absent;
    std::ranges::copy_if(names, std::inserter(absent, absent.end()),
                         [&there](const std::string& tensor) { return !there.contains(tensor); });
    if (!absent.empty()) {
      blame({.name = name, .path = path},
            fmt::format("{} says that {} is in {}, which does not have it", path,
                        excerpt(*absent.begin()), excerpt(shard)));
    }
  }
}

/// Their names say how many there are.
void Verifier::find_shards_without_index() {
  std::map<std::string, std::set<std::uint32_t>> numbers;  // by the name of the last
  for (const CheckpointFile& file : summary_.files) {
    const std::optional<NumberedShard> shard = numbered_shard(file.name);
    if (shard && std::ranges::find(summary_.indexes, shard->index()) == summary_.indexes.end()) {
      numbers[shard->name(shard->count)].insert(shard->number);
    }
  }
  for (const auto& [last, there] : numbers) {
    const NumberedShard shard = *numbered_shard(last);
    for (std::uint32_t number = 1; number <= shard.count; ++number) {
      if (!there.contains(number)) {
        result_.missing.push_back(shard.name(number));
      }
    }
  }
}

Result<CheckpointVerification> Verifier::run() {
  result_.missing = summary_.missing;
  all_bytes_ = summary_.file_bytes();
  for (const CheckpointFile& file : summary_.files) {
    PENSTOCK_TRY(verify(file));
    if (!file.misplaced.empty()) {
      blame(file, fmt::format("{}: {}", file.path, file.misplaced));
    }
  }
  std::ranges::for_each(summary_.indexes, [this](const auto& name) { verify_index(name); });
  find_shards_without_index();
  return std::move(result_);
}

}  // namespace

Result<CheckpointVerification> verify_checkpoint(
    const CheckpointSummary& summary, IoQueue& queue,
    const std::function<void(std::uint64_t, std::uint64_t)>& on_progress) {
  return Verifier(summary, queue, on_progress).run();
}

}  // namespace penstock
