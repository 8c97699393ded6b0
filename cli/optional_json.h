#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace penstock::cli {

/// A report has every key that it can have: what is not known is null.
template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// An empty text is not known either.
inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

}  // namespace penstock::cli
