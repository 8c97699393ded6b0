#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "swap/plan/place.h"

namespace penstock {

/// Sends tensors to a place; of several rules the first that matches counts.
struct TensorRule {
  std::string match;  ///< glob over the name (`*`, `?`); empty: every name
  std::optional<std::uint64_t> min_bytes;
  std::optional<std::uint64_t> max_bytes;
  Place place = Place::kClass;
  std::string text;  ///< the rule as written, for errors

  bool matches(std::string_view name, std::uint64_t bytes) const;
};

}  // namespace penstock
