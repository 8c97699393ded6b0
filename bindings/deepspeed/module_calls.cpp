#include "bindings/deepspeed/module_calls.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "bindings/deepspeed/call_order.h"
#include "bindings/deepspeed/tied_names.h"

namespace penstock {
namespace {

using Use = ParameterUse;

std::string_view module_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) {
    return {};
  }
  // `--adapter` takes a name without the words behind the adapter's module.
  return name.substr(dot + 1).starts_with("lora_") ? name : name.substr(0, dot);
}

std::vector<std::string_view> words_between_dots(std::string_view path) {
  std::vector<std::string_view> words;
  while (!path.empty()) {
    words.push_back(path.substr(0, path.find('.')));
    path.remove_prefix(std::min(words.back().size() + 1, path.size()));
  }
  return words;
}

// Words that both names begin with, but for the last.
std::size_t shared_modules(std::string_view a, std::string_view b) {
  const auto end = std::ranges::mismatch(a, b).in1;
  return static_cast<std::size_t>(std::count(a.begin(), end, '.'));
}

// Whether it is a list of the modules below it: called one by one, never itself.
bool is_list(std::string_view word, std::string_view below) {
  return std::ranges::all_of(below, [](char c) { return c >= '0' && c <= '9'; }) ||
         word.starts_with("lora_") || word == "modules_to_save";
}

// An embedding stands before the modules that share most of its path, a head behind them; at the
// very end of all where none does.
void insert_tied(std::vector<Use>& uses, const Use& tied) {
  const bool is_first = is_embedding(tied.name);
  std::size_t at = is_first ? 0 : uses.size();
  std::size_t most = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::size_t shared = shared_modules(tied.name, uses[i].name);
    if (shared > most || (shared == most && most > 0 && !is_first)) {
      most = shared;
      at = is_first ? i : i + 1;
    }
  }
  uses.insert(uses.begin() + static_cast<std::ptrdiff_t>(at), tied);
}

// PEFT trains a copy of a module that it is to save, and calls the copy in its place.
void drop_originals(std::vector<Use>& uses) {
  std::unordered_set<std::string> copied;
  for (const Use& use : uses) {
    if (is_of_copy(use.name)) {
      copied.insert(name_without_copy(use.name));
    }
  }
  std::erase_if(uses, [&copied](const Use& use) {
    return !is_of_copy(use.name) && copied.contains(name_without_copy(use.name));
  });
}

std::vector<Use> uses_in_forward(const TrainingSetup& setup, const std::vector<TiedName>& ties) {
  const std::vector<TensorInfo>& tensors = setup.inventory.tensors;
  std::vector<Use> uses;
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const std::size_t i = setup.use_order.empty() ? k : setup.use_order[k];
    if (tensors[i].role == Role::kParam) {
      uses.push_back({tensors[i].name, i});
      places.emplace(tensors[i].name, i);
    }
  }
  if (setup.use_order.empty()) {
    order_norms(uses);
  }
  std::ranges::stable_partition(uses, [](const Use& use) { return !is_of_head(use.name); });
  for (const TiedName& tie : ties) {
    const auto found = places.find(tie.tensor);
    if (found == places.end()) {
      continue;
    }
    insert_tied(uses, {tie.name, found->second});
    if (is_embedding(tie.name) && module_of(tie.tensor).ends_with("shared")) {
      // It is called under the names that it has in the encoder and the decoder only.
      std::erase_if(uses, [&tie](const Use& use) { return use.name == tie.tensor; });
    }
  }
  drop_originals(uses);
  return uses;
}

struct Calls {
  std::vector<ModuleCall> modules;      // in the order of their begin
  std::vector<std::size_t> by_end;      // places in it, in the order of their end
  std::vector<std::string_view> names;  // of a parameter of each; empty where it has none
};

// Modules as they begin and end, from their parameters in the order of use.
class CallTree {
 public:
  void add(const Use& use) {
    const std::string_view module = module_of(use.name);
    if (module.empty()) {
      close_from(0);
      open(0);
    } else {
      enter(words_between_dots(module));
    }
    ModuleCall& call = calls_.modules[open_.back().call];
    calls_.names[open_.back().call] = use.name;
    call.parameters.push_back(use.place);
    call.is_left_open |= is_embedding(use.name);
  }
  Calls finish() && {
    close_from(0);
    return std::move(calls_);
  }

 private:
  struct Open {
    std::size_t depth;
    std::size_t call;
  };

  void enter(std::vector<std::string_view> path) {
    const auto shared = std::ranges::mismatch(path, path_).in1 - path.begin();
    close_from(static_cast<std::size_t>(shared) + 1);
    if (is_wrapped_by_adapter(path)) {
      close_from(open_.back().depth);
    }
    for (std::size_t depth = open_.empty() ? 0 : open_.back().depth + 1; depth <= path.size();
         ++depth) {
      const bool is_inner = depth > 0 && depth < path.size();
      if (!is_inner || !is_list(path[depth - 1], path[depth])) {
        open(depth);
      }
    }
    path_ = std::move(path);
  }
  // PEFT puts a module around the one that it adapts, which is called before the adapter.
  bool is_wrapped_by_adapter(const std::vector<std::string_view>& path) const {
    return !open_.empty() && open_.back().depth < path.size() &&
           path[open_.back().depth].starts_with("lora_") &&
           !calls_.modules[open_.back().call].parameters.empty();
  }
  void open(std::size_t depth) {
    open_.push_back({depth, calls_.modules.size()});
    calls_.modules.emplace_back();
    calls_.names.emplace_back();
  }
  void close_from(std::size_t depth) {
    while (!open_.empty() && open_.back().depth >= depth) {
      calls_.by_end.push_back(open_.back().call);
      open_.pop_back();
    }
  }

  Calls calls_;
  std::vector<Open> open_;  // the outermost, which is the model, first
  std::vector<std::string_view> path_;
};

bool is_trained(const TrainingSetup& setup, const ModuleCall& call) {
  return std::ranges::any_of(call.parameters, [&setup](std::size_t i) {
    return setup.trains(setup.inventory.tensors[i]);
  });
}

// The modules with a backward, in its order, which is that of their end from behind: those from the
// first trained one on. Frozen embeddings have none, since they compute from token numbers, nor
// have frozen projections of what the first trained one computes from. A frozen model is the base
// of an adapter that the inventory does not list: all but the embeddings have a backward.
std::vector<std::size_t> with_backward(const TrainingSetup& setup, const Calls& calls) {
  const std::vector<std::size_t>& by_end = calls.by_end;
  auto first = std::ranges::find_if(by_end, [&setup, &calls](std::size_t module) {
    return is_trained(setup, calls.modules[module]);
  });
  const std::string_view trained = first == by_end.end() ? "" : calls.names[*first];
  if (first == by_end.end()) {
    first = std::ranges::find_if(
        by_end, [&calls](std::size_t module) { return !calls.modules[module].parameters.empty(); });
    first += first == by_end.end() ? 0 : 1;
  }
  std::vector<std::size_t> found(first, by_end.end());
  std::erase_if(found, [&](std::size_t module) {
    const ModuleCall& call = calls.modules[module];
    return !is_trained(setup, call) &&
           (call.is_left_open || share_input(calls.names[module], trained));
  });
  std::ranges::reverse(found);
  return found;
}

}  // namespace

std::vector<ModuleCall> module_calls(const TrainingSetup& setup) {
  const std::vector<TiedName> ties = tied_names(setup.inventory);
  CallTree tree;
  for (const Use& use : uses_in_forward(setup, ties)) {
    tree.add(use);
  }
  const Calls calls = std::move(tree).finish();
  std::vector<ModuleCall> pass = calls.modules;
  for (ModuleCall& call : pass) {
    call.is_left_open = false;
  }
  // TRL's GRPO multiplies by the head's weight itself, which DeepSpeed then holds from forward to
  // backward.
  bool skips_head = setup.generates;
  for (const std::size_t module : with_backward(setup, calls)) {
    const ModuleCall& call = calls.modules[module];
    if (skips_head && !call.parameters.empty()) {
      skips_head = false;
    } else {
      pass.push_back(call);
    }
  }
  return pass;
}

}  // namespace penstock
