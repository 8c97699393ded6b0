#include "swap/schedule/residency.h"

#include <algorithm>

#include "alloc/check.h"

namespace penstock {

bool Residency::claim(TensorId tensor, std::uint64_t bytes, Claim claim) {
  if (const auto held = claims_.find(tensor); held != claims_.end()) {
    held->second.claim = std::max(held->second.claim, claim);
    return true;
  }
  if (bytes > room_bytes()) {
    return false;
  }
  claims_.emplace(tensor, Held{bytes, claim});
  held_bytes_ += bytes;
  return true;
}

void Residency::release(TensorId tensor) {
  const auto held = claims_.find(tensor);
  if (held == claims_.end()) {
    return;
  }
  PENSTOCK_CHECK(held_bytes_ >= held->second.bytes, "residents hold {} bytes, tensor {} alone {}",
                 held_bytes_, to_number(tensor), held->second.bytes);
  held_bytes_ -= held->second.bytes;
  claims_.erase(held);
}

std::vector<TensorId> Residency::victims(std::uint64_t bytes, Claim claim) const {
  std::vector<TensorId> chosen;
  std::uint64_t room = room_bytes();
  for (auto held = claims_.rbegin(); held != claims_.rend() && room < bytes; ++held) {
    if (held->second.claim < claim) {
      chosen.push_back(held->first);
      room += held->second.bytes;
    }
  }
  return room >= bytes ? chosen : std::vector<TensorId>{};
}

}  // namespace penstock
