#include "bindings/archive/crc32.h"

#include <fmt/format.h>
#include <libdeflate.h>

namespace penstock {

std::uint32_t crc32(std::uint32_t so_far, std::span<const std::byte> part) noexcept {
  return libdeflate_crc32(so_far, part.data(), part.size());
}

std::string describe_wrong_crc(std::uint32_t found, std::uint32_t expected) {
  return fmt::format("its CRC-32 is {:08x} instead of {:08x}", found, expected);
}

}  // namespace penstock
