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
  if (dtype == dtype_) {
    return give(bytes);
  }
  converted_.resize(bytes.size() / dtype_bytes(dtype) * dtype_bytes(dtype_));
  convert(dtype, bytes, dtype_, converted_);
  return give(converted_);
}

Result<void> IntakeLane::pad(TensorId tensor, std::uint64_t elements) {
  static constexpr std::array<std::byte, 64 * kKiB> kZeros{};
  while (elements > 0) {
    PENSTOCK_TRY(open(tensor));
    const std::uint64_t count =
        std::min<std::uint64_t>(elements, kZeros.size() / dtype_bytes(dtype_));
    PENSTOCK_TRY(give(std::span(kZeros).first(count * dtype_bytes(dtype_))));
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
  const auto info = engine_.info(tensor);
  PENSTOCK_TRY(info);
  PENSTOCK_TRY(writer_.begin(tensor));
  tensor_ = **info;
  id_ = tensor;
  const auto layout = layouts_.find(tensor);
  layout_ = layout == layouts_.end() ? nullptr : layout->second.get();
  dtype_ = layout_ == nullptr ? tensor_.dtype : DType::kF32;
  bytes_ = layout_ == nullptr ? tensor_.bytes() : layout_->elements() * sizeof(float);
  missing_bytes_ = bytes_;
  return {};
}

Result<void> IntakeLane::give(std::span<const std::byte> bytes) {
  PENSTOCK_TRY(layout_ == nullptr ? writer_.append(bytes) : give_encoded(bytes));
  missing_bytes_ -= bytes.size();
  return missing_bytes_ == 0 ? writer_.end() : Result<void>();
}

/// Blocks need all of their elements: the tensor, a chunk of a state, is encoded when it is full.
Result<void> IntakeLane::give_encoded(std::span<const std::byte> bytes) {
  if (bytes.size() > missing_bytes_) {
    return fault(Fault::kWrongSize,
                 fmt::format("tensor '{}' was given more than its {} bytes", tensor_.name, bytes_));
  }
  floats_.insert(floats_.end(), bytes.begin(), bytes.end());
  if (floats_.size() < bytes_) {
    return {};
  }
  encoded_.resize(layout_->bytes());
  layout_->encode({reinterpret_cast<const float*>(floats_.data()), layout_->elements()}, encoded_);
  floats_.clear();
  return writer_.append(encoded_);
}

Error IntakeLane::not_full() const {
  return fault(Fault::kWrongSize, fmt::format("tensor '{}' was given {} of its {} bytes",
                                              tensor_.name, bytes_ - missing_bytes_, bytes_));
}

}  // namespace penstock::python
