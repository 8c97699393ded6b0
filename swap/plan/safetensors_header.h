#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "swap/plan/inventory.h"

namespace penstock {

struct SafetensorsTensor {
  TensorInfo info;
  std::uint64_t offset = 0;  ///< in the file, of its first byte
};

/// What the header of one `.safetensors` file says.
struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  ///< in natural order of their names
  std::map<std::string, std::string> metadata;

  Inventory inventory() const;
};

/// An element type as the format writes it: `BF16`, `F8_E4M3`.
std::string safetensors_dtype_name(DType dtype);

/// Reads the header only; the file is one that the safetensors library takes: the
/// tensors' data fill it from the header to its end, in any order.
/// Errors: errno with the path; Fault::kInvalidArgument saying what is wrong with the file.
Result<SafetensorsHeader> load_safetensors_header(const std::string& path);

/// The tensors alone.
Result<Inventory> load_safetensors(const std::string& path);

}  // namespace penstock
