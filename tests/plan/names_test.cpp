#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "bindings/inventory/model_order.h"
#include "swap/plan/name_pattern.h"
#include "swap/plan/natural_order.h"
#include "swap/plan/nearest_name.h"

namespace penstock {
namespace {

TEST(EditDistanceTest, CountsSingleLetterChanges) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("ram", "ram"), 0U);
  EXPECT_EQ(edit_distance("ram", "rum"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ab", "ba"), 1U) << "neighbours that changed places are one slip";
  EXPECT_EQ(edit_distance("abc", "cba"), edit_distance("cba", "abc"));
}

TEST(NearestNameTest, FindsTheLikelyOneAndNothingFarFetched) {
  constexpr std::array<std::string_view, 3> kNames{"max_pinned_bytes", "ram_bytes", "engine"};
  EXPECT_EQ(nearest_name("max_pined_bytes", kNames), "max_pinned_bytes");
  EXPECT_EQ(nearest_name("ram_byte", kNames), "ram_bytes");
  EXPECT_EQ(nearest_name("engnie", kNames), "engine");
  EXPECT_EQ(nearest_name("colour", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'x'), kNames), "");
}

TEST(NamePatternTest, MatchesTheWholeName) {
  EXPECT_TRUE(matches_pattern("*.embed_tokens.weight", "model.embed_tokens.weight"));
  EXPECT_FALSE(matches_pattern("*.embed_tokens.weight", "model.embed_tokens.weight.1"));
  EXPECT_TRUE(matches_pattern("model.layers.?.*", "model.layers.7.mlp.up_proj.weight"));
  EXPECT_FALSE(matches_pattern("model.layers.?.*", "model.layers.17.mlp.up_proj.weight"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("", ""));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(matches_pattern("?", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(matches_pattern("a*b*c", "a-b-b-c-"));
}

TEST(NamePatternTest, ManyStarsDoNotTakeForEver) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) {
    pattern += "*a";
  }
  EXPECT_FALSE(matches_pattern(pattern + "b", std::string(20'000, 'a')));
}

TEST(NaturalOrderTest, CountsAsPeopleDo) {
  EXPECT_TRUE(natural_less("layers.2.a", "layers.10.a"));
  EXPECT_FALSE(natural_less("layers.10.a", "layers.2.a"));
  EXPECT_TRUE(natural_less("a", "b"));
  EXPECT_TRUE(natural_less("a", "a.b"));
  EXPECT_FALSE(natural_less("a", "a"));
  EXPECT_TRUE(natural_less("layers.9.z", "layers.10.a"));
  EXPECT_TRUE(natural_less("x99999999999999999999998", "x99999999999999999999999"))
      << "numbers beyond 64 bits";
}

TEST(NaturalOrderTest, IsStrictForNamesThatDifferInZerosOnly) {
  EXPECT_NE(natural_less("a01", "a1"), natural_less("a1", "a01"));
  EXPECT_NE(natural_less("a0.b1", "a.b1"), natural_less("a.b1", "a0.b1"));
  EXPECT_FALSE(natural_less("a01", "a01"));
}

void expect_order(const std::vector<std::string>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = 0; j < order.size(); ++j) {
      EXPECT_EQ(model_order_less(order[i], order[j]), i < j) << order[i] << " " << order[j];
    }
  }
}

TEST(ModelOrderTest, IsThatOfBuilding) {
  expect_order({"model.embed_tokens.weight", "model.layers.2.self_attn.q_proj.weight",
                "model.layers.2.self_attn.q_proj.bias", "model.layers.2.self_attn.k_proj.weight",
                "model.layers.2.self_attn.v_proj.weight", "model.layers.2.self_attn.o_proj.weight",
                "model.layers.2.self_attn.q_norm.weight", "model.layers.2.mlp.gate.weight",
                "model.layers.2.mlp.experts.9.gate_proj.weight",
                "model.layers.2.mlp.experts.9.up_proj.weight",
                "model.layers.2.mlp.experts.9.down_proj.weight",
                "model.layers.2.mlp.experts.10.gate_proj.weight",
                "model.layers.2.input_layernorm.weight",
                "model.layers.2.post_attention_layernorm.weight",
                "model.layers.10.self_attn.q_proj.weight", "model.norm.weight", "lm_head.weight"});
}

// As transformers 5.23 builds T5 and BERT.
TEST(ModelOrderTest, OfEncodersAndDecoders) {
  expect_order({"shared.weight", "encoder.block.0.layer.0.SelfAttention.q.weight",
                "encoder.block.0.layer.0.SelfAttention.k.weight",
                "encoder.block.0.layer.0.SelfAttention.v.weight",
                "encoder.block.0.layer.0.SelfAttention.o.weight",
                "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                "encoder.block.0.layer.0.layer_norm.weight",
                "encoder.block.0.layer.1.DenseReluDense.wi_0.weight",
                "encoder.block.0.layer.1.DenseReluDense.wo.weight",
                "encoder.block.0.layer.1.layer_norm.weight",
                "encoder.block.1.layer.0.SelfAttention.q.weight", "encoder.final_layer_norm.weight",
                "decoder.block.0.layer.0.SelfAttention.q.weight",
                "decoder.block.0.layer.1.EncDecAttention.q.weight",
                "decoder.final_layer_norm.weight", "lm_head.weight"});
  expect_order(
      {"bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
       "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm.weight",
       "bert.encoder.layer.0.attention.self.query.weight",
       "bert.encoder.layer.0.attention.self.key.weight",
       "bert.encoder.layer.0.attention.self.value.weight",
       "bert.encoder.layer.0.attention.output.dense.weight",
       "bert.encoder.layer.0.attention.output.LayerNorm.weight",
       "bert.encoder.layer.0.intermediate.dense.weight", "bert.encoder.layer.0.output.dense.weight",
       "bert.encoder.layer.0.output.LayerNorm.weight", "bert.pooler.dense.weight",
       "classifier.weight"});
}

}  // namespace
}  // namespace penstock
