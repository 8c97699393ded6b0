#include "bindings/deepspeed/checkpoint_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "bindings/deepspeed/directory_listing.h"
#include "bindings/deepspeed/shard_name.h"
#include "bindings/deepspeed/unusable_file.h"
#include "bindings/inventory/input_file.h"
#include "swap/plan/natural_order.h"

namespace penstock {
namespace {

constexpr std::string_view kLatest = "latest";
constexpr std::string_view kTrainerPrefix = "checkpoint-";
constexpr std::uint64_t kTagBytesMax = 255;  // a name of Linux
constexpr std::uint64_t kLatestBytesMax = 4096;

using Names = std::vector<std::string>;

bool has_shards(const Names& names) {
  return std::ranges::any_of(
      names, [](const std::string& name) { return parse_shard_name(name).has_value(); });
}

/// The folders of tags in a directory, newest first.
Names tags_in(const std::string& directory, const Names& names) {
  Names tags;
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    if (!is_directory(path)) {
      continue;
    }
    const Result<Names> inner = list_directory(path);
    if (inner.has_value() && has_shards(*inner)) {
      tags.push_back(name);
    }
  }
  std::ranges::sort(tags, [](const auto& a, const auto& b) { return natural_less(b, a); });
  return tags;
}

/// What `latest` says. A checkpoint is not trusted: the tag is the name of a folder beside it.
Result<std::string> read_latest(const std::string& directory) {
  const std::string path = directory + "/" + std::string(kLatest);
  Result<std::string> text = read_text_file(path, kLatestBytesMax);
  PENSTOCK_TRY(text);
  constexpr std::string_view kBlanks = " \t\n\v\f\r";  // DeepSpeed strips them at both ends
  const std::size_t begin = std::min(text->find_first_not_of(kBlanks), text->size());
  const std::string tag = text->substr(begin, text->find_last_not_of(kBlanks) + 1 - begin);
  if (tag.empty() || tag == "." || tag == ".." || tag.size() > kTagBytesMax ||
      tag.find('/') != std::string::npos || tag.find('\0') != std::string::npos) {
    return unusable_file(path,
                         fmt::format("{} names \"{}\", which is no folder beside it; DeepSpeed "
                                     "writes the tag of the newest checkpoint into it",
                                     path, excerpt(tag)));
  }
  return tag;
}

Error latest_names_nothing(const std::string& directory, const std::string& tag,
                           const Names& tags) {
  const std::string advice =
      tags.empty() ? "copy that folder, too"
                   : fmt::format("there is {}: name that folder, or write its name into latest",
                                 excerpt(tags.front()));
  return unusable_file(directory,
                       fmt::format("{}/latest names {}, which has no files of a checkpoint; {}",
                                   directory, excerpt(tag), advice));
}

/// A folder with `latest`, or with folders of tags.
Result<bool> look_at_saves(const std::string& directory, const Names& names,
                           CheckpointPlace& place) {
  Names tags = tags_in(directory, names);
  const bool has_latest = std::ranges::find(names, kLatest) != names.end();
  if (!has_latest && tags.empty()) {
    return false;
  }
  std::string tag = tags.empty() ? "" : tags.front();
  if (has_latest) {
    Result<std::string> latest = read_latest(directory);
    PENSTOCK_TRY(latest);
    tag = std::move(*latest);
    if (std::ranges::find(tags, tag) == tags.end()) {
      return latest_names_nothing(directory, tag, tags);
    }
  }
  std::erase(tags, tag);
  place.save_directory = directory;
  place.tag_directory = directory + "/" + tag;
  place.tag = std::move(tag);
  place.is_named_by_latest = has_latest;
  place.others = std::move(tags);
  place.weights.push_back(look_at_weights(directory, names));
  return true;
}

/// Whether all behind a Trainer's prefix are digits: not so a copy that a user has named so.
bool has_step(std::string_view name) {
  name.remove_prefix(kTrainerPrefix.size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

/// `checkpoint-500` and its like, newest first; behind them others of that prefix.
Names trainer_folders(const std::string& directory, const Names& names) {
  Names found;
  std::ranges::copy_if(names, std::back_inserter(found), [&directory](const std::string& name) {
    return name.starts_with(kTrainerPrefix) && is_directory(directory + "/" + name);
  });
  std::ranges::sort(found, [](const auto& a, const auto& b) {
    return has_step(a) == has_step(b) ? natural_less(b, a) : has_step(a);
  });
  return found;
}

/// Stubs, and no checkpoint of DeepSpeed beside them: perhaps a folder that holds the weights.
Error only_stubs(const ModelWeights& stub, const Names& folders) {
  for (const std::string& folder : folders) {
    const std::string path = stub.directory + "/" + folder;
    const Result<Names> names = list_directory(path);
    const ModelWeights weights = look_at_weights(path, names.has_value() ? *names : Names());
    if (weights.has_contents()) {
      return unusable_file(stub.directory,
                           fmt::format("in {} {}; the weights are in {} ({})", stub.directory,
                                       stub.stub_sentence(), path, format_bytes(weights.bytes)));
    }
  }
  return unusable_file(
      stub.directory, fmt::format("in {} {}, and no folder in it holds the weights; save the model "
                                  "again with all ranks taking part",
                                  stub.directory, stub.stub_sentence()));
}

}  // namespace

Result<std::optional<CheckpointPlace>> find_checkpoint(const std::string& directory) {
  const Result<Names> names = list_directory(directory);
  PENSTOCK_TRY(names);
  CheckpointPlace place;
  place.named = directory;
  if (has_shards(*names)) {
    const std::size_t last = directory.find_last_not_of('/');
    const std::string trimmed = directory.substr(0, last == std::string::npos ? 1 : last + 1);
    place.tag_directory = trimmed;
    place.tag = trimmed.substr(trimmed.find_last_of('/') + 1);
    return place;
  }
  const Result<bool> is_save = look_at_saves(directory, *names, place);
  PENSTOCK_TRY(is_save);
  if (*is_save) {
    return place;
  }
  const ModelWeights top = look_at_weights(directory, *names);
  const Names folders = trainer_folders(directory, *names);
  for (const std::string& folder : folders) {
    const std::string path = directory + "/" + folder;
    const Result<Names> inner = list_directory(path);
    PENSTOCK_TRY(inner);
    const Result<bool> found = look_at_saves(path, *inner, place);
    PENSTOCK_TRY(found);
    if (*found) {
      place.others = folders;
      std::erase(place.others, folder);
      if (has_step(folder)) {
        place.passed_over.assign(folders.begin(), std::ranges::find(folders, folder));
      }
      place.weights.insert(place.weights.begin(), top);
      return place;
    }
  }
  if (top.is_stub()) {
    return only_stubs(top, folders);
  }
  return std::nullopt;
}

}  // namespace penstock
