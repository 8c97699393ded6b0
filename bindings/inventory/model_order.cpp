#include "bindings/inventory/model_order.h"

#include <algorithm>
#include <array>

#include "swap/plan/natural_order.h"

namespace penstock {
namespace {

struct RankedWord {
  std::string_view word;
  int rank;
};

constexpr int kUnknown = 50;

// What a path has between two dots, by name. Ranks are compared between words of one place only.
constexpr std::array kWords = std::to_array<RankedWord>({
    {"LayerNorm", 80},
    {"attention", 20},
    {"attn", 20},
    {"bias", 1},
    {"block_sparse_moe", 30},
    {"c_attn", 10},
    {"c_fc", 10},
    {"c_proj", 14},
    {"classifier", 99},
    {"decoder", 30},
    {"dense_4h_to_h", 14},
    {"dense_h_to_4h", 10},
    {"down_proj", 14},
    {"down_proj_bias", 15},
    {"embed_in", 0},
    {"embed_out", 99},
    {"embed_positions", 1},
    {"embed_tokens", 0},
    {"embeddings", 0},
    {"encoder", 20},
    {"encoder_attn", 22},
    {"encoder_attn_layer_norm", 23},
    {"experts", 20},
    {"fc1", 40},
    {"fc2", 41},
    {"final_layer_norm", 80},
    {"final_layernorm", 80},
    {"gate", 10},
    {"gate_proj", 11},
    {"gate_up_proj", 11},
    {"gate_up_proj_bias", 12},
    {"h", 20},
    {"input_layernorm", 60},
    {"intermediate", 30},
    {"k", 12},
    {"k_norm", 16},
    {"k_proj", 12},
    {"key", 12},
    {"layer_norm", 80},
    {"layernorm_embedding", 90},
    {"layers", 20},
    {"lm_head", 99},
    {"ln_1", 10},
    {"ln_2", 25},
    {"ln_f", 80},
    {"mlp", 30},
    {"norm", 80},
    {"o", 14},
    {"o_proj", 14},
    {"out_proj", 14},
    {"output", 40},
    {"pooler", 85},
    {"position_embeddings", 1},
    {"post_attention_layernorm", 61},
    {"post_feedforward_layernorm", 63},
    {"pre_feedforward_layernorm", 62},
    {"q", 11},
    {"q_norm", 15},
    {"q_proj", 11},
    {"query", 11},
    {"query_key_value", 10},
    {"relative_attention_bias", 15},
    {"router", 10},
    {"score", 99},
    {"self", 10},
    {"self_attention", 20},
    {"self_attn", 20},
    {"self_attn_layer_norm", 21},
    {"shared", 0},
    {"sinks", 5},
    {"tok_embeddings", 0},
    {"token_type_embeddings", 2},
    {"up_proj", 12},
    {"v", 13},
    {"v_proj", 13},
    {"value", 13},
    {"weight", 0},
    {"word_embeddings", 0},
    {"word_embeddings_layernorm", 2},
    {"wpe", 1},
    {"wte", 0},
});
static_assert(std::ranges::is_sorted(kWords, {}, &RankedWord::word));

int rank_of(std::string_view word) noexcept {
  const auto found = std::ranges::lower_bound(kWords, word, {}, &RankedWord::word);
  return found != kWords.end() && found->word == word ? found->rank : kUnknown;
}

// The word before the next dot; moves `rest` behind it.
std::string_view take_word(std::string_view& rest) noexcept {
  const std::string_view word = rest.substr(0, rest.find('.'));
  rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  return word;
}

}  // namespace

bool model_order_less(std::string_view a, std::string_view b) noexcept {
  std::string_view left = a;
  std::string_view right = b;
  while (!left.empty() && !right.empty()) {
    const std::string_view x = take_word(left);
    const std::string_view y = take_word(right);
    if (x != y) {
      const int rank_x = rank_of(x);
      const int rank_y = rank_of(y);
      return rank_x != rank_y ? rank_x < rank_y : natural_less(x, y);
    }
  }
  return left.empty() == right.empty() ? a < b : left.empty();
}

}  // namespace penstock
