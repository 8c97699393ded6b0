#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "swap/plan/place.h"

namespace penstock {

/// Sends tensors to a place; of several rules the first that matches counts.
struct TensorRule {
  /// Glob (`*`, `?`) over the name or, of a chunk, over its whole's; empty: every name.
  std::string match;
  std::optional<std::uint64_t> min_bytes;
  std::optional<std::uint64_t> max_bytes;
  Place place = Place::kClass;
  std::string text;  ///< the rule as written, for errors

  bool matches(std::string_view name, std::uint64_t bytes) const;
};

}  // namespace penstock
