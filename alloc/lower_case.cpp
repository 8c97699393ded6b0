#include "alloc/lower_case.h"

#include <algorithm>
#include <cctype>

namespace penstock {

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace penstock
