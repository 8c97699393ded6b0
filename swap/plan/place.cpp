#include "swap/plan/place.h"

#include <fmt/format.h>

#include <algorithm>

#include "alloc/excerpt.h"
#include "swap/plan/nearest_name.h"

namespace penstock {

std::string_view place_name(Place place) noexcept {
  return kPlaceNames[static_cast<std::size_t>(place)];
}

Result<Place> parse_place(std::string_view text) {
  const auto found = std::find(kPlaceNames.begin(), kPlaceNames.end(), text);
  if (found == kPlaceNames.end()) {
    return fault(Fault::kConfiguration,
                 fmt::format("\"{}\" is no place{}; allowed: {}", excerpt(text),
                             did_you_mean(text, kPlaceNames), fmt::join(kPlaceNames, ", ")));
  }
  return static_cast<Place>(found - kPlaceNames.begin());
}

}  // namespace penstock
