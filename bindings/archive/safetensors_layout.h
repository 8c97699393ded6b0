#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "swap/plan/inventory.h"

namespace penstock {

/// One safetensors file that is to be written.
struct SafetensorsFile {
  std::string name;                  ///< in its directory
  std::string header;                ///< the first bytes: length, JSON, spaces up to a whole block
  std::vector<std::size_t> tensors;  ///< in the order of their bytes, which follow without gaps
  std::uint64_t bytes = 0;           ///< header included
};

struct SafetensorsLayout {
  std::vector<SafetensorsFile> files;
  std::string index;  ///< JSON that says which tensor is in which file; empty for a single file
};

/// Lays tensors out in one file called `name`. Tensors that are whole blocks come first, in the
/// order given: header and data then begin at blocks, and nearly everything is written as it is
/// read; the rest follows, largest elements first, so that each is aligned to its element. Errors:
/// Fault::kUnsupported: a header larger than the format allows.
Result<SafetensorsLayout> lay_out_file(const std::vector<TensorInfo>& tensors,
                                       const std::map<std::string, std::string>& metadata,
                                       const std::string& name);

/// In files of at most `max_bytes` of data, except where one tensor is larger, named as others name
/// theirs (`model-00001-of-00002.safetensors`), with an index. Tensors are divided in the order
/// given. Errors: as lay_out_file().
Result<SafetensorsLayout> lay_out_shards(const std::vector<TensorInfo>& tensors,
                                         const std::map<std::string, std::string>& metadata,
                                         std::uint64_t max_bytes);

}  // namespace penstock
