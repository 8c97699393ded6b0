#include "bindings/deepspeed/pickle_value.h"

#include <utility>

namespace penstock {

PickleDocument::PickleDocument(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {
  values_.emplace_back();  // None
}

PickleRef PickleDocument::find(PickleRef dict, std::string_view key) const {
  const PickleValue& value = values_[dict];
  if (value.kind != PickleValue::Kind::kDict && !value.has_pairs) {
    return 0;
  }
  for (std::size_t pair = value.items.size(); pair >= 2; pair -= 2) {
    const PickleValue& name = values_[value.items[pair - 2]];
    if (name.kind == PickleValue::Kind::kText && name.text == key) {
      return value.items[pair - 1];
    }
  }
  return 0;
}

std::string_view PickleDocument::called(PickleRef object) const {
  const PickleValue& value = values_[object];
  if (value.kind != PickleValue::Kind::kObject) {
    return {};
  }
  const PickleValue& callable = values_[value.callable];
  return callable.kind == PickleValue::Kind::kGlobal ? callable.text : std::string_view{};
}

}  // namespace penstock
