#include "swap/plan/tensor_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "alloc/excerpt.h"
#include "alloc/utf8.h"

namespace penstock {

Result<void> check_tensor_name(std::string_view name) {
  constexpr std::size_t kBytesMax = 4096;
  const bool fits = !name.empty() && name.size() <= kBytesMax;
  if (fits && name != "__metadata__" && is_utf8(name) && std::ranges::none_of(name, is_control)) {
    return {};
  }
  return fault(
      Fault::kInvalidArgument,
      fmt::format("'{}' is no name for a tensor: a name has 1 to {} bytes of UTF-8 without "
                  "control characters, and is not __metadata__",
                  excerpt(name), kBytesMax));
}

std::string_view whole_name(std::string_view name) noexcept {
  const std::size_t last = name.find_last_not_of("0123456789");
  const bool is_chunk =
      last != std::string_view::npos && last + 1 < name.size() && name[last] == '/';
  return is_chunk ? name.substr(0, last) : name;
}

}  // namespace penstock
