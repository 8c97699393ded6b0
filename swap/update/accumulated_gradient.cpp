#include "swap/update/accumulated_gradient.h"

#include "swap/transfer/dtype_conversion.h"

namespace penstock {

bool AccumulatedGradient::has_elements(std::size_t count) const noexcept {
  const bool is_real = dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
  return is_real && bytes.size() == count * dtype_bytes(dtype);
}

std::span<const float> AccumulatedGradient::widened(std::size_t first,
                                                    std::span<float> memory) const {
  const std::size_t element_bytes = dtype_bytes(dtype);
  const std::span part = bytes.subspan(first * element_bytes, memory.size() * element_bytes);
  if (dtype == DType::kF32 && factor == 1.0F) {
    return {reinterpret_cast<const float*>(part.data()), memory.size()};
  }
  convert(dtype, part, DType::kF32, std::as_writable_bytes(memory));
  for (float& value : memory) {
    value *= factor;
  }
  return memory;
}

}  // namespace penstock
