#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bindings/inventory/checkpoint.h"

namespace penstock {

/// An element type as the format writes it: `BF16`, `F8_E4M3`.
std::string safetensors_dtype_name(DType dtype);

/// A checkpoint of one file; reads its header only. The file is one that the safetensors library
/// takes: the tensors' data fill it from the header to its end, in any order. Errors: errno with
/// the path; Fault::kInvalidArgument saying what is wrong with the file.
Result<Checkpoint> load_safetensors(const std::string& path);
/// The header alone, from memory: `json` without the 8 length bytes; `data_bytes` = bytes behind
/// it, from which offsets count. `origin` is the file's name.
Result<Checkpoint> parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                            const std::string& origin);

}  // namespace penstock
