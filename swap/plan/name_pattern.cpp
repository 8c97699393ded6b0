#include "swap/plan/name_pattern.h"

#include <cstddef>

namespace penstock {

bool matches_pattern(std::string_view pattern, std::string_view name) noexcept {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = kNone;   // the last `*` passed
  std::size_t star_name = 0;  // where its match ends so far
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != kNone) {
      // Only the last star needs to grow: an earlier one could not match better.
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace penstock
