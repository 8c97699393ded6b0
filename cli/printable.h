#pragma once

#include <string>
#include <string_view>

namespace penstock::cli {

/// `text` for a terminal: names come from files, and control characters in them could do anything.
inline std::string printable(std::string_view text) {
  std::string safe(text);
  for (char& c : safe) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      c = ' ';
    }
  }
  return safe;
}

}  // namespace penstock::cli
