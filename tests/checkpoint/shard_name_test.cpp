#include "bindings/deepspeed/shard_name.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ShardNameTest, ReadsTheNamesThatDeepSpeedGives) {
  for (const char* name :
       {"mp_rank_00_model_states.pt", "mp_rank_07_model_states.pt",
        "zero_pp_rank_12_mp_rank_03_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "bf16_zero_pp_rank_130_mp_rank_00_optim_states.pt",
        "fp16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
        "layer_3_expert_11_mp_rank_01_model_states.pt", "expp_rank_1_mp_rank_00_optim_states.pt"}) {
    const std::optional<ShardName> shard = parse_shard_name(name);
    ASSERT_TRUE(shard.has_value()) << name;
    EXPECT_EQ(shard_file_name(*shard), name);
  }
  const std::optional<ShardName> shard =
      parse_shard_name("zero_pp_rank_12_mp_rank_03_model_states.pt");
  EXPECT_EQ(shard->kind, ShardKind::kModel);
  EXPECT_EQ(shard->rank, 12U);
  EXPECT_EQ(shard->mp_rank, 3U);
  EXPECT_EQ(parse_shard_name("mp_rank_00_model_states.pt")->rank, std::nullopt);
}

TEST(ShardNameTest, KnowsExpertsAndLayers) {
  EXPECT_EQ(parse_shard_name("layer_0_expert_11_mp_rank_00_model_states.pt")->kind,
            ShardKind::kExpert);
  EXPECT_EQ(parse_shard_name("expp_rank_1_mp_rank_00_optim_states.pt")->kind, ShardKind::kExpert);
  for (const char* name : {"layer_03-model_00-model_states.pt", "layer_03-model_states.pt"}) {
    EXPECT_EQ(parse_shard_name(name)->kind, ShardKind::kLayer);
    EXPECT_EQ(parse_shard_name(name)->layer, 3U);
  }
  EXPECT_FALSE(parse_shard_name("layer_-model_states.pt").has_value());
  EXPECT_EQ(parse_shard_name("zero_pp_rank_0_mp_rank_00optim_states.pt")->kind,
            ShardKind::kOptimizer);
}

TEST(ShardNameTest, LeavesOtherNamesAlone) {
  for (const char* name :
       {"", "latest", "model.safetensors", "mp_rank_", "mp_rank_00", "mp_rank_00_model_states.pt2",
        "zero_pp_rank__mp_rank_00_optim_states.pt", "zero_pp_rank_-1_mp_rank_00_optim_states.pt",
        "zero_pp_rank_99999999999_mp_rank_00_optim_states.pt", "zero_pp_rank_1mp_rank_00_",
        "layer_x_expert_0_mp_rank_00_model_states.pt", "rng_state_0.pth"}) {
    EXPECT_FALSE(parse_shard_name(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace penstock
