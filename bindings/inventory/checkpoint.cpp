#include "bindings/inventory/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "bindings/inventory/safetensors_header.h"
#include "bindings/inventory/safetensors_index.h"

namespace penstock {
namespace {

Error not_checkpoint(const std::string& path, std::string message) {
  return fault(Fault::kInvalidArgument, std::move(message), path);
}

}  // namespace

Inventory Checkpoint::inventory() const {
  Inventory inventory;
  inventory.tensors.reserve(tensors.size());
  for (const CheckpointTensor& tensor : tensors) {
    inventory.tensors.push_back(tensor.info);
  }
  return inventory;
}

bool is_safetensors(std::string_view file) noexcept {
  return file.ends_with(".safetensors") || file.ends_with(".safetensors.index.json");
}

Result<std::string> find_checkpoint_file(const std::string& path) {
  const std::filesystem::path directory(path);
  std::error_code ignored;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (std::filesystem::is_regular_file(directory / name, ignored)) {
      return (directory / name).string();
    }
  }
  std::vector<std::string> indices;
  std::vector<std::string> files;
  std::string pytorch;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors.index.json")) {
      indices.push_back(entry->path().string());
    } else if (name.ends_with(".safetensors")) {
      files.push_back(entry->path().string());
    } else if (name.starts_with("pytorch_model") && name.ends_with(".bin")) {
      pytorch = entry->path().string();
    }
  }
  if (error) {
    return system_error(error.value(), fmt::format("cannot list {}", path), path);
  }
  if (indices.size() == 1) {
    return indices.front();
  }
  if (indices.empty() && files.size() == 1) {
    return files.front();
  }
  if (indices.empty() && files.empty()) {
    PENSTOCK_TRY(check_not_pytorch(pytorch));
    return not_checkpoint(
        path, fmt::format("{} has neither a .safetensors file nor a .safetensors.index.json; for a "
                          "directory with only a config.json, `python -m penstock.inventory {}` "
                          "writes an inventory",
                          path, path));
  }
  return not_checkpoint(path,
                        fmt::format("{} has {} .safetensors files and {} indices; name the one "
                                    "that is meant",
                                    path, files.size(), indices.size()));
}

Result<void> check_not_pytorch(const std::string& path) {
  constexpr std::array<std::string_view, 4> kEndings{".bin", ".pt", ".pth", ".ckpt"};
  if (std::ranges::none_of(kEndings, [&](std::string_view end) { return path.ends_with(end); })) {
    return {};
  }
  return not_checkpoint(
      path, fmt::format("{} is of PyTorch's format, whose tensors are not read; transformers' "
                        "save_pretrained() writes the model as safetensors, and `python -m "
                        "penstock.inventory` lists its tensors from its config.json",
                        path));
}

Result<Checkpoint> load_checkpoint(const std::string& path) {
  std::error_code ignored;
  std::string file = path;
  if (std::filesystem::is_directory(path, ignored)) {
    Result<std::string> found = find_checkpoint_file(path);
    PENSTOCK_TRY(found);
    file = std::move(*found);
  }
  if (file.ends_with(".safetensors.index.json")) {
    return load_indexed_checkpoint(file);
  }
  if (file.ends_with(".safetensors")) {
    return load_safetensors(file);
  }
  PENSTOCK_TRY(check_not_pytorch(file));
  return not_checkpoint(path, fmt::format("{} is no checkpoint: a .safetensors file, a "
                                          ".safetensors.index.json or a directory with either is",
                                          path));
}

}  // namespace penstock
