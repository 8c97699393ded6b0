#include "swap/schedule/read_ahead.h"

#include <new>

#include "alloc/check.h"

namespace penstock {

void ReadAhead::begin(TensorId tensor, std::uint64_t bytes) {
  PENSTOCK_CHECK(!holds(tensor), "tensor {} is read ahead already", to_number(tensor));
  const auto ordered = in_order_.emplace_hint(in_order_.end(), begun_, tensor);
  try {
    places_.emplace(tensor, Place{begun_, bytes});
  } catch (const std::bad_alloc&) {
    in_order_.erase(ordered);
    throw;
  }
  ++begun_;
  bytes_ += bytes;
}

void ReadAhead::end(TensorId tensor) {
  const auto found = places_.find(tensor);
  if (found == places_.end()) {
    return;
  }
  bytes_ -= found->second.bytes;
  in_order_.erase(found->second.number);
  places_.erase(found);
}

}  // namespace penstock
