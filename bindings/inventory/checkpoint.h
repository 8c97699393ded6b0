#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "swap/plan/inventory.h"

namespace penstock {

/// One tensor of a checkpoint, and where its bytes lie.
struct CheckpointTensor {
  TensorInfo info;
  std::size_t file = 0;      ///< of Checkpoint::files
  std::uint64_t offset = 0;  ///< there, of its first byte
};

/// A checkpoint of safetensors files.
struct Checkpoint {
  std::vector<std::string> files;
  std::vector<CheckpointTensor> tensors;        ///< in natural order of their names
  std::map<std::string, std::string> metadata;  ///< of the first file that has a key
  /// Tensors of the files that the index does not name, which are not part of the model.
  std::size_t unnamed = 0;
  std::string first_unnamed{};

  Inventory inventory() const;
};

/// A `.safetensors` file, a `….safetensors.index.json`, or a directory with either; reads headers
/// only. Errors: as load_inventory().
Result<Checkpoint> load_checkpoint(const std::string& path);

/// Whether it is a `.safetensors` file or an index of such, by its name.
bool is_safetensors(std::string_view file) noexcept;

/// Refuses what is of PyTorch's own format by its name, whose tensors are not read here.
Result<void> check_not_pytorch(const std::string& path);

/// The file of a checkpoint that stands for a directory, in the order in which transformers looks
/// for it. Errors: there is none, or several.
Result<std::string> find_checkpoint_file(const std::string& directory);

}  // namespace penstock
