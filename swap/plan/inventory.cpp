#include "swap/plan/inventory.h"

#include <fmt/format.h>

#include <limits>

namespace penstock {

Result<void> check_axes(std::string_view tensor, std::size_t axes) {
  if (axes > kTensorAxesMax) {
    return fault(
        Fault::kInvalidArgument,
        fmt::format("tensor '{}' has {} dimensions; {} are allowed", tensor, axes, kTensorAxesMax));
  }
  return {};
}

std::uint64_t TensorInfo::elements() const noexcept {
  std::uint64_t product = 1;
  for (const std::uint64_t side : shape) {
    product *= side;
  }
  return product;
}

std::uint64_t TensorInfo::bytes() const noexcept {
  return packed_bytes(dtype, elements());
}

bool TensorInfo::fits_63_bits() const noexcept {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::uint64_t product = dtype_bytes(dtype);
  bool fits = true;
  for (const std::uint64_t side : shape) {
    if (side == 0) {
      return true;
    }
    fits = fits && product <= kMax / side;
    product *= side;
  }
  return fits;
}

std::uint64_t Inventory::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const TensorInfo& tensor : tensors) {
    sum += tensor.bytes();
  }
  return sum;
}

std::uint64_t Inventory::elements() const noexcept {
  std::uint64_t sum = 0;
  for (const TensorInfo& tensor : tensors) {
    sum += tensor.elements();
  }
  return sum;
}

}  // namespace penstock
