#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace penstock::bench {

/// A report has every key that it can have: what is not known is null.
template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace penstock::bench
