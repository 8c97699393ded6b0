#include "swap/plan/place.h"

namespace penstock {

std::string_view place_name(Place place) noexcept {
  return kPlaceNames[static_cast<std::size_t>(place)];
}

}  // namespace penstock
