#include "alloc/utf8.h"

#include <cstdint>

namespace penstock {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

}  // namespace

std::size_t utf8_letter_bytes(std::string_view text, std::size_t at) {
  const unsigned char first = byte_at(text, at);
  if (first < 0x80) {
    return 1;
  }
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes > text.size() - at) {
    return 0;
  }
  std::uint32_t letter = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte_at(text, at + i) & 0xc0) != 0x80) {
      return 0;
    }
    letter = letter << 6 | (byte_at(text, at + i) & 0x3fU);
  }
  constexpr std::uint32_t kFirstOf[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = letter >= 0xd800 && letter <= 0xdfff;
  return letter >= kFirstOf[bytes] && letter <= 0x10ffff && !surrogate ? bytes : 0;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = utf8_letter_bytes(text, at);
    if (bytes == 0) {
      return false;
    }
    at += bytes;
  }
  return true;
}

}  // namespace penstock
