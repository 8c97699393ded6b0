#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock {

/// The five fates of a tensor. kStream: no pinned memory is planned for it; it is read whole for
/// each use, into pageable memory unless pinned memory happens to be free.
enum class Place : std::uint8_t { kClass, kDedicated, kRam, kStream, kDevice };
/// In the order of Place.
inline constexpr std::array<std::string_view, 5> kPlaceNames{"class", "dedicated", "ram", "stream",
                                                             "device"};
/// Those that a rule may ask for: what stays on the device is the runtime's choice.
inline constexpr std::span<const std::string_view> kRulePlaceNames{kPlaceNames.data(), 4};

/// Neither kept in RAM nor on the device: brought from a drive whenever it is used.
constexpr bool is_on_drive(Place place) noexcept {
  return place != Place::kRam && place != Place::kDevice;
}
std::string_view place_name(Place place) noexcept;

}  // namespace penstock
