// What the machine does with its stack and memo.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bindings/deepspeed/pickle_machine.h"

namespace penstock {

bool PickleMachine::push(PickleRef ref) {
  stack_.push_back(ref);
  return true;
}

bool PickleMachine::push(PickleValue value) {
  if (document_.values_.size() >= limits_.values) {
    return refuse("the pickle describes too much to be read");
  }
  document_.values_.push_back(std::move(value));
  return push(static_cast<PickleRef>(document_.values_.size() - 1));
}

bool PickleMachine::push_global(std::string_view module, std::string_view name) {
  if (std::max(module.size(), name.size()) > limits_.name_bytes) {
    return refuse("the pickle imports a name that is longer than any");
  }
  name_bytes_ += module.size() + name.size();
  if (name_bytes_ > limits_.all_names_bytes) {
    return refuse("the pickle describes too much to be read");
  }
  document_.names_.push_back(fmt::format("{}.{}", module, name));
  return push(PickleValue{.kind = Kind::kGlobal, .text = document_.names_.back()});
}

bool PickleMachine::pop(PickleRef& ref) {
  if (is_empty()) {
    return refuse("the pickle takes more than it has");
  }
  ref = stack_.back();
  stack_.pop_back();
  return true;
}

bool PickleMachine::pop_to_mark(std::vector<PickleRef>& refs) {
  if (marks_.empty()) {
    return refuse("the pickle takes more than it has");
  }
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  refs.assign(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return true;
}

bool PickleMachine::push_tuple(std::size_t count) {
  PickleValue tuple{.kind = Kind::kTuple, .items = std::vector<PickleRef>(count)};
  for (std::size_t at = count; at-- > 0;) {
    if (!pop(tuple.items[at])) {
      return false;
    }
  }
  return push(std::move(tuple));
}

bool PickleMachine::push_marked(Kind kind) {
  PickleValue value{.kind = kind};
  return pop_to_mark(value.items) && push(std::move(value));
}

/// Adds to what lies on top of the stack. Objects take both (OrderedDict, deque), never one after
/// the other.
bool PickleMachine::append(std::vector<PickleRef> refs, bool pairs) {
  if (is_empty()) {
    return refuse("the pickle takes more than it has");
  }
  PickleValue& target = document_.values_[stack_.back()];
  const bool is_object = target.kind == Kind::kObject;
  const bool fits = pairs ? target.kind == Kind::kDict || is_object
                          : target.kind == Kind::kList || target.kind == Kind::kSet || is_object;
  if (!fits || (is_object && !target.items.empty() && target.has_pairs != pairs)) {
    return refuse("the pickle adds elements to something that has none");
  }
  if (pairs && refs.size() % 2 != 0) {
    return refuse("the pickle has a key without a value");
  }
  target.has_pairs = pairs && !refs.empty() ? true : target.has_pairs;
  target.items.insert(target.items.end(), refs.begin(), refs.end());
  return true;
}

bool PickleMachine::append_one(bool pair) {
  PickleRef value = 0;
  PickleRef key = 0;
  if (!pop(value) || (pair && !pop(key))) {
    return false;
  }
  return append(pair ? std::vector{key, value} : std::vector{value}, pair);
}

bool PickleMachine::append_marked(bool pairs) {
  std::vector<PickleRef> refs;
  return pop_to_mark(refs) && append(std::move(refs), pairs);
}

/// A callable below its arguments: a tuple, and with 2 a dict of named ones as well, which nothing
/// here asks for.
bool PickleMachine::call(std::size_t arguments) {
  PickleRef named = 0;
  PickleValue made{.kind = Kind::kObject};
  if ((arguments == 2 && !pop(named)) || !pop(made.arguments) || !pop(made.callable)) {
    return false;
  }
  return push(std::move(made));
}

bool PickleMachine::build() {
  PickleRef state = 0;
  PickleRef target = 0;
  if (!pop(state) || !pop(target)) {
    return false;
  }
  PickleValue& object = document_.values_[target];
  if (object.kind != Kind::kObject) {
    return refuse("the pickle gives a state to something that has none");
  }
  object.state = state;
  return push(target);
}

bool PickleMachine::push_persistent() {
  PickleValue outside{.kind = Kind::kPersistent};
  return pop(outside.arguments) && push(std::move(outside));
}

bool PickleMachine::push_stacked_global() {
  PickleRef name = 0;
  PickleRef module = 0;
  if (!pop(name) || !pop(module)) {
    return false;
  }
  const PickleValue& name_value = document_[name];
  const PickleValue& module_value = document_[module];
  if (name_value.kind != Kind::kText || module_value.kind != Kind::kText) {
    return refuse("the pickle imports something without a name");
  }
  return push_global(module_value.text, name_value.text);
}

/// Picklers number what they remember from 0 on, so no index is larger than what came before it.
bool PickleMachine::remember(std::size_t index) {
  if (is_empty() || index > operations_) {
    return refuse("the pickle remembers what it has not");
  }
  if (index >= memo_.size()) {
    memo_.resize(index + 1, kUnset);
  }
  memo_count_ += memo_[index] == kUnset ? 1U : 0U;
  memo_[index] = stack_.back();
  return true;
}

}  // namespace penstock
