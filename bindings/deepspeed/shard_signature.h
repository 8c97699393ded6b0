#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bindings/deepspeed/torch_archive.h"

namespace penstock {

/// Which save a file belongs to, and which rank: penstock writes it into each file that it saves
/// (bindings/python/penstock/deepspeed/checkpoint/signature.py). Files that were renamed or mixed
/// are of the right length, so that nothing else shows it.
struct ShardSignature {
  std::string save;  ///< of all files of one save the same
  std::uint32_t rank = 0;
};

/// `SAVE RANK`, as the record says it. Nothing for any other text.
std::optional<ShardSignature> parse_signature(std::string_view record);

/// Nothing where the file has none: it is stock DeepSpeed's or older; or where it cannot be read.
std::optional<ShardSignature> read_signature(const TorchArchive& archive);

}  // namespace penstock
