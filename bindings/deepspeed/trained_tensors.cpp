#include "bindings/deepspeed/trained_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "swap/plan/name_pattern.h"
#include "swap/plan/tensor_name.h"

namespace penstock {
namespace {

Error no_adapter(const std::string& text, std::string_view problem) {
  return fault(Fault::kInvalidArgument,
               fmt::format("--adapter {} {}; it is NAME=ROWSxCOLS[:DTYPE], such as "
                           "model.layers.*.self_attn.q_proj.lora_A=8x1024",
                           text, problem));
}

std::optional<std::uint64_t> side_of(std::string_view text) {
  std::uint64_t side = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && side > 0 ? std::optional(side) : std::nullopt;
}

std::vector<std::string_view> words_of(std::string_view path) {
  std::vector<std::string_view> words;
  for (const auto& word : std::views::split(path, '.')) {
    words.emplace_back(word.begin(), word.end());
  }
  return words;
}

// The modules of the inventory that a pattern names, as deep as any agrees with it.
struct Modules {
  std::size_t depth = 0;             // words of the pattern that they stand for
  std::vector<std::string> paths;    // in the inventory's order
  std::set<std::string_view> below;  // words of modules within them
};

Modules modules_for(const Inventory& inventory, std::span<const std::string_view> pattern) {
  Modules modules;
  std::set<std::string_view> seen;
  for (const TensorInfo& tensor : inventory.tensors) {
    const std::vector<std::string_view> words = words_of(tensor.name);
    const std::size_t deepest =
        std::min(pattern.size(), words.size()) - 1;  // the last is no module
    std::size_t depth = 0;
    while (depth < deepest && matches_pattern(pattern[depth], words[depth])) {
      ++depth;
    }
    if (depth > modules.depth) {
      modules = {depth, {}, {}};
    }
    if (depth == 0 || depth < modules.depth) {
      continue;
    }
    const std::string_view& last = words[depth - 1];
    const auto length = static_cast<std::size_t>(last.data() + last.size() - tensor.name.data());
    if (const auto path = std::string_view(tensor.name).substr(0, length);
        seen.insert(path).second) {
      modules.paths.emplace_back(path);
    }
    modules.below.insert(words.begin() + static_cast<std::ptrdiff_t>(depth), words.end() - 1);
  }
  return modules;
}

// Words behind the modules are the adapter's own. One that the inventory has farther below has been
// written in the wrong place.
Result<std::vector<TensorInfo>> one_for_each(const Inventory& inventory,
                                             const TensorInfo& adapter) {
  if (adapter.name.find('*') == std::string::npos) {
    return std::vector{adapter};
  }
  const std::vector<std::string_view> pattern = words_of(adapter.name);
  const Modules modules = modules_for(inventory, pattern);
  const std::span<const std::string_view> own = std::span(pattern).subspan(modules.depth);
  const std::string rest = fmt::format("{}", fmt::join(own, "."));
  if (rest.find('*') != std::string::npos) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("--adapter {} has a * for which no name of the inventory has a word",
                             adapter.name));
  }
  if (own.size() > 1 && modules.below.contains(own.front())) {
    return fault(
        Fault::kInvalidArgument,
        fmt::format("--adapter {} matches no module of the inventory: {} has no {}; each * "
                    "stands for one word between dots",
                    adapter.name, modules.paths.front(), own.front()));
  }
  std::vector<TensorInfo> adapters;
  for (const std::string& path : modules.paths) {
    adapters.push_back(adapter);
    adapters.back().name = fmt::format("{}.{}", path, rest);
  }
  return adapters;
}

std::size_t shared_prefix(std::string_view a, std::string_view b) {
  const std::size_t end = std::min(a.size(), b.size());
  std::size_t dots = 0;
  for (std::size_t i = 0; i < end && a[i] == b[i]; ++i) {
    dots += a[i] == '.' ? 1U : 0U;
  }
  return dots;
}

// Behind the last of those that share most of the path; behind the first where none does.
std::size_t place_behind(const Inventory& inventory, std::string_view name) {
  std::size_t best = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; i < inventory.tensors.size(); ++i) {
    const std::size_t shared = shared_prefix(inventory.tensors[i].name, name);
    if (shared > 0 && shared >= most) {
      most = shared;
      best = i;
    }
  }
  return std::min(best + 1, inventory.tensors.size());
}

}  // namespace

Result<void> choose_trained(Inventory& inventory, const std::vector<std::string>& patterns,
                            const std::vector<std::string>& adapters) {
  if (patterns.empty()) {
    return {};
  }
  std::vector<bool> by_model;
  for (TensorInfo& tensor : inventory.tensors) {
    by_model.push_back(std::exchange(tensor.is_trained, false));
  }
  for (const std::string& pattern : patterns) {
    // A star of an adapter's name is a letter to the pattern.
    bool has_match = std::ranges::any_of(
        adapters, [&pattern](const std::string& name) { return matches_pattern(pattern, name); });
    for (std::size_t i = 0; i < inventory.tensors.size(); ++i) {
      TensorInfo& tensor = inventory.tensors[i];
      const bool matched = tensor.role == Role::kParam &&
                           (pattern == "all" ? by_model[i] : matches_pattern(pattern, tensor.name));
      tensor.is_trained |= matched;
      has_match |= matched;
    }
    if (!has_match && pattern != "none" && pattern != "all") {
      return fault(
          Fault::kInvalidArgument,
          fmt::format("--trainable {} matches no parameter; `*` stands for any letters, "
                      "such as *.q_proj.weight, and the first parameter is {}",
                      pattern,
                      inventory.tensors.empty() ? "not there" : inventory.tensors[0].name));
    }
  }
  return {};
}

Result<Adapter> parse_adapter(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == 0 || equals == std::string::npos) {
    return no_adapter(text, "has no NAME=");
  }
  Adapter adapter;
  TensorInfo& info = adapter.tensor;
  info.name = text.substr(0, equals);
  PENSTOCK_TRY(check_tensor_name(info.name));
  std::string_view shape = std::string_view(text).substr(equals + 1);
  if (const std::size_t colon = shape.find(':'); colon != std::string_view::npos) {
    Result<DType> dtype = parse_dtype(shape.substr(colon + 1));
    if (!dtype) {
      return no_adapter(text, "names no type: " + dtype.error().message);
    }
    info.dtype = *dtype;
    adapter.has_type = true;
    shape = shape.substr(0, colon);
  }
  const std::size_t times = shape.find('x');
  const auto rows = side_of(shape.substr(0, times));
  const auto columns =
      times == std::string_view::npos ? std::nullopt : side_of(shape.substr(times + 1));
  if (!rows || !columns) {
    return no_adapter(text, "has no ROWSxCOLS, two whole numbers above 0");
  }
  info.shape = {*rows, *columns};
  if (!info.fits_63_bits()) {
    return no_adapter(text, "is larger than 2^63 bytes");
  }
  return adapter;
}

Result<std::vector<std::string>> add_adapter(Inventory& inventory, const TensorInfo& adapter) {
  const Result<std::vector<TensorInfo>> adapters = one_for_each(inventory, adapter);
  PENSTOCK_TRY(adapters);
  std::set<std::string_view> taken;
  for (const TensorInfo& tensor : inventory.tensors) {
    taken.insert(tensor.name);
  }
  for (const TensorInfo& one : *adapters) {
    if (taken.contains(one.name)) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("--adapter {} is a name that the inventory has, or another "
                               "--adapter; leave this one out, or name it otherwise",
                               one.name));
    }
  }
  std::vector<std::string> names;
  for (const TensorInfo& one : *adapters) {
    names.push_back(one.name);
    const auto at = static_cast<std::ptrdiff_t>(place_behind(inventory, one.name));
    inventory.tensors.insert(inventory.tensors.begin() + at, one);
  }
  return names;
}

}  // namespace penstock
