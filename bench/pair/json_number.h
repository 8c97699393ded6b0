#pragma once

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// A number in a report; 0 where it has no such key, another type there, or is no object.
inline double json_number(const nlohmann::json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace penstock::bench
