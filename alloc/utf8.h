#pragma once

#include <cstddef>
#include <string_view>

namespace penstock {

/// How many bytes the letter at `at` has; 0 where there is none in UTF-8 (RFC 3629).
std::size_t utf8_letter_bytes(std::string_view text, std::size_t at);

/// Whether all of `text` is UTF-8.
bool is_utf8(std::string_view text);

/// Whether a byte is a control character of ASCII.
constexpr bool is_control(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace penstock
