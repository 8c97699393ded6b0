#include "swap/schedule/residency.h"

#include <algorithm>

#include "alloc/check.h"

namespace penstock {

bool Residency::claim(Key key, std::uint64_t bytes, Claim claim) {
  if (const auto held = claims_.find(key); held != claims_.end()) {
    held->second.claim = std::max(held->second.claim, claim);
    return true;
  }
  if (bytes > room_bytes()) {
    return false;
  }
  claims_.emplace(key, Held{bytes, claim});
  held_bytes_ += bytes;
  return true;
}

void Residency::release(Key key) {
  const auto held = claims_.find(key);
  if (held == claims_.end()) {
    return;
  }
  PENSTOCK_CHECK(held_bytes_ >= held->second.bytes, "residents hold {} bytes, tensor {} alone {}",
                 held_bytes_, key, held->second.bytes);
  held_bytes_ -= held->second.bytes;
  claims_.erase(held);
}

std::vector<Residency::Key> Residency::victims(std::uint64_t bytes, Claim claim) const {
  std::vector<Key> chosen;
  std::uint64_t room = room_bytes();
  for (auto held = claims_.rbegin(); held != claims_.rend() && room < bytes; ++held) {
    if (held->second.claim < claim) {
      chosen.push_back(held->first);
      room += held->second.bytes;
    }
  }
  return room >= bytes ? chosen : std::vector<Key>{};
}

}  // namespace penstock
