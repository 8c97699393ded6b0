#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// The files of weights that lie in a directory as transformers saves them: `model.safetensors`,
/// its shards, `pytorch_model.bin`, an adapter's.
struct ModelWeights {
  std::string directory;
  std::vector<std::string> files;  ///< names, in natural order
  std::uint64_t tensors = 0;
  std::uint64_t empty_tensors = 0;    ///< that have no element
  std::uint64_t bytes = 0;            ///< of all tensors
  std::vector<std::string> problems;  ///< files that cannot be read, and why

  /// What is left where each rank had its own part of a tensor, or none, when one of them saved
  /// the model: names and shapes without contents.
  bool is_stub() const noexcept { return empty_tensors > 0 && 2 * empty_tensors >= tensors; }
  bool has_contents() const noexcept { return tensors > empty_tensors && !is_stub(); }
  /// "model.safetensors is a stub: 310 of its 311 tensors are empty".
  std::string stub_sentence() const;
};

/// `model.safetensors`, `model-00001-of-00002.safetensors`, `adapter_model.bin`.
bool is_weights(std::string_view name);

/// Reads headers only. No files are no error.
ModelWeights look_at_weights(const std::string& directory,
                             const std::vector<std::string>& names_there);

}  // namespace penstock
