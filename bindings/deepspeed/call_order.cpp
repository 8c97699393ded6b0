#include "bindings/deepspeed/call_order.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

namespace penstock {
namespace {

using Words = std::span<const std::string_view>;

// Children of a module: its norms in the groups in which it calls them, the others by `rank_of`.
struct Order {
  std::span<const std::pair<std::string_view, int>> norms;
  int (*rank_of)(std::string_view child);
};

constexpr std::array<std::pair<std::string_view, int>, 12> kLayerNorms{{
    {"input_layernorm", 0},
    {"layer_norm1", 0},
    {"layernorm_before", 0},
    {"ln_attn", 0},
    {"post_self_attn_layernorm", 2},
    {"post_attention_layernorm", 3},
    {"layer_norm2", 3},
    {"layernorm_after", 3},
    {"ln_mlp", 3},
    {"pre_feedforward_layernorm", 4},
    {"post_feedforward_layernorm", 6},
    {"post_mlp_layernorm", 6},
}};
constexpr std::array<std::pair<std::string_view, int>, 4> kAttentionNorms{
    {{"q_norm", 1}, {"k_norm", 1}, {"q_layernorm", 1}, {"k_layernorm", 1}}};

constexpr std::array<std::string_view, 3> kOutputs{"o_proj", "out_proj", "dense"};
constexpr std::array<std::string_view, 9> kProjectionsOfAttention{
    "q_proj", "k_proj", "v_proj", "query", "key", "value", "q", "k", "v"};
constexpr std::array<std::string_view, 4> kProjectionsOfMlp{"gate_proj", "up_proj", "wi_0", "wi_1"};

int rank_in_layer(std::string_view child) {
  constexpr std::array<std::string_view, 3> kMixers{"attn", "attention", "mamba"};
  const bool is_mixer = std::ranges::any_of(
      kMixers, [child](std::string_view mixer) { return child.find(mixer) != child.npos; });
  return is_mixer ? 1 : 5;
}

int rank_in_attention(std::string_view child) {
  return std::ranges::find(kOutputs, child) != kOutputs.end() ? 2 : 0;
}

constexpr Order kLayer{kLayerNorms, rank_in_layer};
constexpr Order kAttention{kAttentionNorms, rank_in_attention};

int rank(const Order& order, std::string_view child) {
  const auto norm = std::ranges::find(order.norms, child, [](const auto& n) { return n.first; });
  return norm != order.norms.end() ? norm->second : order.rank_of(child);
}

std::string_view first_word(std::string_view path) {
  return path.substr(0, path.find('.'));
}

// The path, with its last dot, of the module that has one of the norms; nothing where none has.
std::string_view parent_of_norm(const Order& order, std::string_view name) {
  for (std::size_t at = 0; at < name.size(); at = name.find('.', at) + 1) {
    const std::string_view word = first_word(name.substr(at));
    if (at + word.size() == name.size()) {
      break;
    }
    if (std::ranges::any_of(order.norms, [word](const auto& norm) { return norm.first == word; })) {
      return name.substr(0, at);
    }
  }
  return {};
}

void order_children(const Order& order, std::vector<ParameterUse>& uses) {
  for (auto use = uses.begin(); use != uses.end();) {
    const std::string_view parent = parent_of_norm(order, use->name);
    if (parent.empty()) {
      ++use;
      continue;
    }
    const auto is_outside = [parent](const ParameterUse& u) { return !u.name.starts_with(parent); };
    const auto begin =
        std::find_if(std::make_reverse_iterator(use), uses.rend(), is_outside).base();
    const auto end = std::find_if(use, uses.end(), is_outside);
    std::ranges::stable_sort(begin, end, {}, [&order, parent](const ParameterUse& u) {
      return rank(order, first_word(u.name.substr(parent.size())));
    });
    use = end;
  }
}

// The module's path without what an adapter puts into it.
std::string_view projection_of(std::string_view name) {
  for (const std::string_view inner : {".base_layer.", ".lora_"}) {
    if (const std::size_t at = name.find(inner); at != name.npos) {
      return name.substr(0, at);
    }
  }
  return name.substr(0, name.rfind('.'));
}

}  // namespace

void order_norms(std::vector<ParameterUse>& uses) {
  order_children(kAttention, uses);  // first, while what it is in has not moved it
  order_children(kLayer, uses);
}

bool share_input(std::string_view name_a, std::string_view name_b) {
  const std::string_view a = projection_of(name_a);
  const std::string_view b = projection_of(name_b);
  const std::size_t dot = a.rfind('.');
  if (a == b || dot == a.npos || dot != b.rfind('.') || a.substr(0, dot) != b.substr(0, dot)) {
    return false;
  }
  return std::ranges::any_of(std::array<Words, 2>{kProjectionsOfAttention, kProjectionsOfMlp},
                             [=](Words words) {
                               return std::ranges::find(words, a.substr(dot + 1)) != words.end() &&
                                      std::ranges::find(words, b.substr(dot + 1)) != words.end();
                             });
}

}  // namespace penstock
