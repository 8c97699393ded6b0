#include "swap/archive/crc32.h"

#include <libdeflate.h>

namespace penstock {

std::uint32_t crc32(std::uint32_t so_far, std::span<const std::byte> part) noexcept {
  return libdeflate_crc32(so_far, part.data(), part.size());
}

}  // namespace penstock
