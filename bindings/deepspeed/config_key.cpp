#include "bindings/deepspeed/config_key.h"

#include <algorithm>

namespace penstock {

const ConfigKey* ConfigTable::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(keys, name, &ConfigKey::name);
  return found == keys.end() ? nullptr : &*found;
}

std::vector<std::string_view> ConfigTable::names() const {
  std::vector<std::string_view> names;
  names.reserve(keys.size());
  for (const ConfigKey& key : keys) {
    names.push_back(key.name);
  }
  return names;
}

}  // namespace penstock
