#include "alloc/excerpt.h"

#include "alloc/utf8.h"

namespace penstock {
namespace {

constexpr std::size_t kBytesMax = 200;

}  // namespace

std::string excerpt(std::string_view text) {
  std::string shortened;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = utf8_letter_bytes(text, at);
    if (shortened.size() + bytes > kBytesMax || shortened.size() == kBytesMax) {
      return shortened + "...";
    }
    if (bytes == 0) {
      shortened += '?';
    } else if (is_control(text[at])) {
      shortened += ' ';
    } else {
      shortened += text.substr(at, bytes);
    }
    at += bytes == 0 ? 1 : bytes;
  }
  return shortened;
}

std::string json_reason(std::string_view message) {
  const std::size_t end = message.find("] ");
  return excerpt(end == std::string_view::npos ? message : message.substr(end + 2));
}

}  // namespace penstock
