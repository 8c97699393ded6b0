#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace penstock {

/// CRC-32 as ZIP archives have it, of bytes that come in parts: `so_far` is what the parts before
/// gave, 0 for the first. Pure, thread-safe; several GB a second.
std::uint32_t crc32(std::uint32_t so_far, std::span<const std::byte> part) noexcept;

/// "its CRC-32 is … instead of …", for messages.
std::string describe_wrong_crc(std::uint32_t found, std::uint32_t expected);

}  // namespace penstock
