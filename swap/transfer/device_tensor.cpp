#include "swap/transfer/device_tensor.h"

#include <fmt/format.h>

#include "swap/transfer/dtype_conversion.h"

namespace penstock {

Result<void> check_device_tensor(const TensorInfo& info, const DeviceTensor& tensor) {
  const DType there = tensor.dtype.value_or(info.dtype);
  if (!converts(info.dtype, there)) {
    return fault(
        Fault::kInvalidArgument,
        fmt::format("tensor '{}' is {} and cannot be converted to or from {}: f32, bf16 and f16 "
                    "are, among each other",
                    info.name, dtype_name(info.dtype), dtype_name(there)));
  }
  const std::uint64_t bytes = info.elements() * dtype_bytes(there);
  if (tensor.memory.bytes != bytes) {
    return fault(Fault::kWrongSize,
                 fmt::format("tensor '{}' has {} bytes as {}, the device's memory for it {}",
                             info.name, bytes, dtype_name(there), tensor.memory.bytes));
  }
  return {};
}

}  // namespace penstock
