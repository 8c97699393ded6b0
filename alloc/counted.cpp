#include "alloc/counted.h"

#include <fmt/format.h>

namespace penstock {

std::string counted(std::uint64_t count, std::string_view noun) {
  const std::string_view ending = noun.ends_with('s') ? "es" : "s";
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : ending);
}

}  // namespace penstock
