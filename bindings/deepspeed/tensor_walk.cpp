#include "bindings/deepspeed/tensor_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "alloc/excerpt.h"
#include "alloc/result.h"
#include "swap/plan/inventory.h"

namespace penstock {
namespace {

constexpr std::string_view kTorch = "torch.";
constexpr std::string_view kStorage = "Storage";
constexpr int kWrappersMax = 8;  // a parameter of a subclass of a tensor is two
constexpr int kStepsMax = 12;

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kStorages{
    {{"Float", "float32"},
     {"Double", "float64"},
     {"Half", "float16"},
     {"BFloat16", "bfloat16"},
     {"Long", "int64"},
     {"Int", "int32"},
     {"Short", "int16"},
     {"Char", "int8"},
     {"Byte", "uint8"},
     {"Bool", "bool"},
     {"ComplexFloat", "complex64"},
     {"ComplexDouble", "complex128"}}};

// Types that penstock only counts the bytes of.
constexpr std::array<std::pair<std::string_view, std::uint32_t>, 2> kCounted{
    {{"complex32", 32}, {"complex128", 128}}};

std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

}  // namespace

ElementType element_type(std::string_view torch_name) {
  const std::string_view name = without_prefix(torch_name, kTorch);
  const Result<DType> dtype = parse_dtype(name);
  if (dtype.has_error()) {
    const auto counted =
        std::ranges::find(kCounted, name, [](const auto& pair) { return pair.first; });
    return {excerpt(name), counted == kCounted.end() ? 0 : counted->second};
  }
  return {std::string(dtype_name(*dtype)), dtype_bits(*dtype)};
}

ElementType storage_type(std::string_view class_name) {
  std::string_view name = without_prefix(without_prefix(class_name, "torch.storage."), kTorch);
  if (name == "UntypedStorage") {
    return element_type("uint8");
  }
  if (name.ends_with(kStorage)) {
    name.remove_suffix(kStorage.size());
  }
  const auto known =
      std::ranges::find(kStorages, name, [](const auto& pair) { return pair.first; });
  return element_type(known == kStorages.end() ? name : known->second);
}

std::optional<TensorCall> find_tensor_call(const PickleDocument& pickle, PickleRef value) {
  std::string_view called = pickle.called(value);
  PickleRef arguments = pickle[value].arguments;
  for (int wrapper = 0; wrapper < kWrappersMax && !called.empty(); ++wrapper) {
    const PickleValue& tuple = pickle[arguments];
    const std::vector<PickleRef>& items = tuple.items;
    if (tuple.kind != PickleKind::kTuple || items.empty()) {
      return std::nullopt;
    }
    if (called == "torch._utils._rebuild_tensor_v2" || called == "torch._utils._rebuild_tensor") {
      return items.size() < 4
                 ? std::nullopt
                 : std::optional(TensorCall{items[0], items[1], items[2], items[3], 0});
    }
    if (called == "torch._utils._rebuild_tensor_v3") {
      return items.size() < 7
                 ? std::nullopt
                 : std::optional(TensorCall{items[0], items[1], items[2], items[3], items[6]});
    }
    if (called == "torch._tensor._rebuild_from_type_v2" && items.size() >= 3 &&
        pickle[items[0]].kind == PickleKind::kGlobal) {
      called = pickle[items[0]].text;
      arguments = items[2];
    } else if (called == "torch._utils._rebuild_parameter" ||
               called == "torch._utils._rebuild_parameter_with_state") {
      called = pickle.called(items[0]);
      arguments = pickle[items[0]].arguments;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool rebuilds_tensor(const PickleDocument& pickle, PickleRef value) {
  const std::string_view called = pickle.called(value);
  return called.starts_with("torch._utils._rebuild_") ||
         called.starts_with("torch._tensor._rebuild_");
}

TensorWalk::TensorWalk(const PickleDocument& pickle) : pickle_(pickle), steps_(pickle.size()) {
  reach(pickle.root(), {});
}

std::optional<PickleRef> TensorWalk::next() {
  while (!pending_.empty()) {
    const PickleRef value = pending_.back();
    pending_.pop_back();
    if (find_tensor_call(pickle_, value)) {
      return value;
    }
    open(value);
  }
  return std::nullopt;
}

void TensorWalk::reach(PickleRef value, Step step) {
  if (value != 0 && !steps_[value].is_seen) {
    step.is_seen = true;
    steps_[value] = step;
    pending_.push_back(value);
  }
}

/// What comes first has its place from here, and is the next one.
void TensorWalk::open(PickleRef ref) {
  const PickleValue& value = pickle_[ref];
  const auto pending_before = static_cast<std::ptrdiff_t>(pending_.size());
  const bool pairs = value.kind == PickleKind::kDict || value.has_pairs;
  if (value.kind == PickleKind::kObject) {
    reach(value.arguments, steps_[ref]);
    reach(value.state, steps_[ref]);
  }
  for (std::size_t at = 0; at < value.items.size(); at += pairs ? 2 : 1) {
    if (pairs) {
      reach(value.items[at + 1], {ref, value.items[at]});
    } else {
      reach(value.items[at], {ref, 0, static_cast<std::uint32_t>(at)});
    }
  }
  std::reverse(pending_.begin() + pending_before, pending_.end());
}

std::string TensorWalk::place(PickleRef value) const {
  std::string place;
  for (int steps = 0; value != pickle_.root() && steps < kStepsMax; ++steps) {
    const Step& step = steps_[value];
    if (step.parent == 0) {
      break;  // what an object at the root is made of
    }
    const PickleValue& key = pickle_[step.key];
    if (step.key == 0) {
      place = fmt::format("[{}]{}", step.index, place);
    } else if (key.kind == PickleKind::kInteger) {
      place = fmt::format("[{}]{}", key.integer, place);
    } else {
      place = fmt::format(".{}{}", key.kind == PickleKind::kText ? excerpt(key.text) : "?", place);
    }
    value = step.parent;
  }
  return place.starts_with('.') ? place.substr(1) : place;
}

}  // namespace penstock
