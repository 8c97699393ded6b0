#include "swap/update/squared_sum.h"

#include <algorithm>
#include <array>
#include <limits>

#include "swap/transfer/dtype_conversion.h"

namespace penstock {
namespace {

using Block = std::array<float, 4096>;  // stays in the first cache

template <std::size_t kLanes>
double sum_in_lanes(std::span<const std::byte> elements, DType dtype) {
  static_assert(std::tuple_size_v<Block> % kLanes == 0);
  const std::size_t element_bytes = dtype_bytes(dtype);
  std::array<double, kLanes> lanes{};
  Block block{};
  std::span<float> rest;
  while (!elements.empty()) {
    const std::size_t count = std::min(block.size(), elements.size() / element_bytes);
    const std::span values = std::span(block).first(count);
    convert(dtype, elements.first(count * element_bytes), DType::kF32,
            std::as_writable_bytes(values));
    elements = elements.subspan(count * element_bytes);
    const std::size_t whole = count / kLanes * kLanes;
    for (std::size_t i = 0; i < whole; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double value = values[i + lane];
        lanes[lane] += value * value;
      }
    }
    rest = values.subspan(whole);  // of the last block alone
  }
  double sum = lanes[0];
  for (std::size_t lane = 1; lane < kLanes; ++lane) {
    sum += lanes[lane];
  }
  for (const double value : rest) {
    sum += value * value;
  }
  return sum;
}

}  // namespace

double squared_sum(std::span<const std::byte> elements, DType dtype, VectorLanes lanes) {
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  switch (lanes) {
    case VectorLanes::k2:
      return sum_in_lanes<2>(elements, dtype);
    case VectorLanes::k4:
      return sum_in_lanes<4>(elements, dtype);
    case VectorLanes::k8:
      return sum_in_lanes<8>(elements, dtype);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace penstock
