#include "swap/schedule/read_ahead.h"

#include <new>

#include "alloc/check.h"

namespace penstock {

void ReadAhead::begin(Key key, std::uint64_t bytes) {
  PENSTOCK_CHECK(!holds(key), "tensor {} is read ahead already", key);
  const auto ordered = in_order_.emplace_hint(in_order_.end(), begun_, key);
  try {
    places_.emplace(key, Place{begun_, bytes});
  } catch (const std::bad_alloc&) {
    in_order_.erase(ordered);
    throw;
  }
  ++begun_;
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
