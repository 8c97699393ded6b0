#include "intake_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "alloc/bytes.h"
#include "swap/transfer/dtype_conversion.h"

namespace penstock::python {

Result<void> IntakeLane::append(TensorId tensor, DType dtype, std::span<const std::byte> bytes) {
  PENSTOCK_TRY(open(tensor));
  if (dtype == tensor_.dtype) {
    return give(bytes);
  }
  converted_.resize(bytes.size() / dtype_bytes(dtype) * dtype_bytes(tensor_.dtype));
  convert(dtype, bytes, tensor_.dtype, converted_);
  return give(converted_);
}

Result<void> IntakeLane::pad(TensorId tensor, std::uint64_t elements) {
  static constexpr std::array<std::byte, 64 * kKiB> kZeros{};
  while (elements > 0) {
    PENSTOCK_TRY(open(tensor));
    const std::uint64_t count =
        std::min<std::uint64_t>(elements, kZeros.size() / dtype_bytes(tensor_.dtype));
    PENSTOCK_TRY(give(std::span(kZeros).first(count * dtype_bytes(tensor_.dtype))));
    elements -= count;
  }
  return {};
}

Result<void> IntakeLane::drain() {
  if (missing_bytes_ > 0) {
    return not_full();
  }
  return writer_.drain();
}

/// What follows is `tensor`'s.
Result<void> IntakeLane::open(TensorId tensor) {
  if (missing_bytes_ > 0) {
    if (tensor != id_) {
      return not_full();
    }
    return {};
  }
  Result<TensorInfo> info = engine_.info(tensor);
  PENSTOCK_TRY(info);
  PENSTOCK_TRY(writer_.begin(tensor));
  tensor_ = std::move(*info);
  id_ = tensor;
  missing_bytes_ = tensor_.bytes();
  return {};
}

Result<void> IntakeLane::give(std::span<const std::byte> bytes) {
  PENSTOCK_TRY(writer_.append(bytes));
  missing_bytes_ -= bytes.size();
  return missing_bytes_ == 0 ? writer_.end() : Result<void>();
}

Error IntakeLane::not_full() const {
  return fault(Fault::kWrongSize,
               fmt::format("tensor '{}' was given {} of its {} bytes", tensor_.name,
                           tensor_.bytes() - missing_bytes_, tensor_.bytes()));
}

}  // namespace penstock::python
