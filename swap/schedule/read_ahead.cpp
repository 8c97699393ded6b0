#include "swap/schedule/read_ahead.h"

#include "alloc/check.h"

namespace penstock {

void ReadAhead::begin(Key key, std::uint64_t bytes) {
  const bool is_new = places_.emplace(key, Place{begun_, bytes}).second;
  PENSTOCK_CHECK(is_new, "tensor {} is read ahead already", key);
  in_order_.emplace_hint(in_order_.end(), begun_++, key);
  bytes_ += bytes;
}

void ReadAhead::end(Key key) {
  const auto found = places_.find(key);
  if (found == places_.end()) {
    return;
  }
  bytes_ -= found->second.bytes;
  in_order_.erase(found->second.number);
  places_.erase(found);
}

}  // namespace penstock
