#include "bindings/deepspeed/parameter_fetches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "bindings/deepspeed/module_calls.h"
#include "tests/training/training_fixture.h"

namespace penstock {
namespace {

using testing::ElementsAre;

Inventory model_of(const std::vector<std::string>& names) {
  Inventory inventory;
  for (const std::string& name : names) {
    inventory.tensors.push_back({.name = name, .dtype = DType::kBF16, .shape = {1024, 1024}});
  }
  return inventory;
}

TrainingSetup setup_of(Inventory inventory, const char* look_ahead) {
  TrainingSetup setup = test::setup_with(
      std::move(inventory), fmt::format(R"({{"bf16": {{"enabled": true}}, "zero_optimization": {{
          "stage": 3, "stage3_param_persistence_threshold": 0, {},
          "offload_param": {{"device": "nvme", "nvme_path": "/n", "max_in_cpu": 0}}}},
          "penstock": {{"ram_bytes": 0}}}})",
                                        look_ahead));
  setup.trained_is_given = true;
  return setup;
}

// How often a pass fetches each, where DeepSpeed neither looks ahead nor keeps anything.
std::vector<std::uint32_t> fetches_of(Inventory inventory) {
  constexpr const char* kNone =
      R"("stage3_prefetch_bucket_size": 0, "stage3_max_reuse_distance": 0)";
  const TrainingSetup setup = setup_of(std::move(inventory), kNone);
  return make_swap_plan(setup, test::baseline_machine()).fetches.by_tensor;
}

TEST(ParameterFetchesTest, TheHeadIsTiedWhereAModelOfWordsListsNone) {
  EXPECT_THAT(fetches_of(model_of({"model.embed_tokens.weight", "model.layers.0.up.weight"})),
              ElementsAre(4, 2));
  EXPECT_THAT(fetches_of(model_of({"model.embed_tokens.weight", "lm_head.weight"})),
              ElementsAre(2, 2));
  EXPECT_THAT(fetches_of(model_of({"model.embed_tokens.weight", "score.weight"})),
              ElementsAre(2, 2))
      << "it ranks answers, and makes no logits of words";
  EXPECT_THAT(
      fetches_of(model_of({"roberta.embeddings.word_embeddings.weight", "lm_head.dense.weight"})),
      ElementsAre(4, 2))
      << "the head's own layer is not the matrix that makes logits";
}

TEST(ParameterFetchesTest, AnEncoderAndADecoderShareTheEmbedding) {
  const std::vector<std::string> names{"shared.weight", "encoder.block.0.layer.0.q.weight",
                                       "decoder.block.0.layer.0.q.weight"};
  EXPECT_THAT(fetches_of(model_of(names)), ElementsAre(5, 2, 2))
      << "three times in forward; in backward once for the head, and for the decoder, whose use "
         "DeepSpeed never sees end";
  std::vector<std::string> with_head = names;
  with_head.emplace_back("lm_head.weight");
  EXPECT_THAT(fetches_of(model_of(with_head)), ElementsAre(3, 2, 2, 2));
}

TEST(ParameterFetchesTest, WhatComesBeforeTheFirstAdapterHasNoBackward) {
  Inventory inventory =
      model_of({"model.embed_tokens.weight", "model.layers.0.q.weight",
                "model.layers.0.q.lora_A.default.weight", "model.layers.0.q.lora_B.default.weight",
                "model.layers.0.o.weight", "lm_head.weight"});
  for (const std::size_t frozen : {0U, 1U, 4U, 5U}) {
    inventory.tensors[frozen].is_trained = false;
  }
  EXPECT_THAT(fetches_of(inventory), ElementsAre(1, 1, 2, 2, 2, 2));
}

// As transformers registers a layer, with norms behind what they come before.
const std::vector<std::string> kLayer{
    "model.embed_tokens.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.k_proj.weight",
    "model.layers.0.self_attn.o_proj.weight",
    "model.layers.0.self_attn.q_norm.weight",
    "model.layers.0.mlp.up_proj.weight",
    "model.layers.0.input_layernorm.weight",
    "model.layers.0.post_attention_layernorm.weight",
    "lm_head.weight",
};

std::vector<std::uint32_t> fetches_training(std::string_view trained) {
  Inventory inventory = model_of(kLayer);
  for (TensorInfo& tensor : inventory.tensors) {
    tensor.is_trained = tensor.name.find(trained) != std::string::npos;
  }
  return fetches_of(std::move(inventory));
}

TEST(ParameterFetchesTest, ANormIsCalledBeforeWhatIsRegisteredBeforeIt) {
  EXPECT_THAT(fetches_training("input_layernorm"), ElementsAre(1, 2, 2, 2, 2, 2, 2, 2, 2));
  EXPECT_THAT(fetches_training("post_attention_layernorm"), ElementsAre(1, 1, 1, 1, 1, 2, 1, 2, 2));
  EXPECT_THAT(fetches_training("q_norm"), ElementsAre(1, 1, 1, 2, 2, 2, 1, 2, 2));
}

TEST(ParameterFetchesTest, ProjectionsBesideTheFirstTrainedOneHaveNoBackward) {
  EXPECT_THAT(fetches_training("q_proj"), ElementsAre(1, 2, 1, 2, 2, 2, 1, 2, 2));
  Inventory inventory =
      model_of({"m.layers.0.attn.q_proj.weight", "m.layers.0.attn.q_proj.lora_A.default.weight",
                "m.layers.0.attn.k_proj.weight", "m.layers.0.attn.v_proj.base_layer.weight",
                "m.layers.0.attn.v_proj.lora_A.default.weight", "m.layers.0.attn.o_proj.weight",
                "m.layers.1.attn.k_proj.weight"});
  for (const std::size_t frozen : {0U, 2U, 3U, 5U, 6U}) {
    inventory.tensors[frozen].is_trained = false;
  }
  EXPECT_THAT(fetches_of(inventory), ElementsAre(1, 2, 1, 1, 2, 2, 2));
  inventory.tensors[1].name = "m.layers.0.attn.q_proj.lora_A";  // as `--adapter` may have it
  EXPECT_THAT(fetches_of(inventory), ElementsAre(1, 2, 1, 1, 2, 2, 2));
}

TEST(ParameterFetchesTest, AFrozenEmbeddingHasNoBackward) {
  Inventory inventory =
      model_of({"m.embed_tokens.weight", "m.embed_positions.weight", "m.layers.0.up.weight"});
  inventory.ties.emplace();
  inventory.tensors[1].is_trained = false;
  EXPECT_THAT(fetches_of(inventory), ElementsAre(2, 1, 2));
}

TEST(ParameterFetchesTest, TheOriginalOfASavedModuleIsNotCalled) {
  EXPECT_THAT(fetches_of(model_of({"model.embed_tokens.weight", "lm_head.weight",
                                   "lm_head.modules_to_save.default.weight"})),
              ElementsAre(2, 0, 2));
  EXPECT_THAT(fetches_of(model_of({"score.dense.weight", "score.modules_to_save.a.dense.weight"})),
              ElementsAre(0, 2));
}

TEST(ParameterFetchesTest, TheOriginalOfASavedModuleIsNotCalledUnderATiedName) {
  const std::vector<std::string> saved{"m.embed_tokens.weight",
                                       "m.lm_head.modules_to_save.default.weight"};
  EXPECT_THAT(fetches_of(model_of(saved)), ElementsAre(2, 2)) << "a copy of the head is a head";
  for (const char* tied : {"m.lm_head.weight", "m.lm_head.original_module.weight"}) {
    Inventory inventory = model_of(saved);
    inventory.ties = std::vector{TiedName{tied, "m.embed_tokens.weight"}};
    EXPECT_THAT(fetches_of(inventory), ElementsAre(2, 2)) << tied;
  }
  Inventory both = model_of({"m.embed_tokens.original_module.weight",
                             "m.embed_tokens.modules_to_save.default.weight",
                             "m.lm_head.modules_to_save.default.weight"});
  both.ties = std::vector{
      TiedName{"m.lm_head.original_module.weight", "m.embed_tokens.original_module.weight"}};
  EXPECT_THAT(fetches_of(both), ElementsAre(0, 2, 2));
}

TEST(ParameterFetchesTest, AHeadCalledEmbedOutIsNoEmbedding) {
  Inventory inventory = model_of({"embed_in.weight", "layers.0.up.weight"});
  inventory.ties = std::vector{TiedName{"embed_out.weight", "embed_in.weight"}};
  const std::vector<std::uint32_t> fetches = fetches_of(inventory);
  inventory.ties = std::vector{TiedName{"lm_head.weight", "embed_in.weight"}};
  EXPECT_EQ(fetches, fetches_of(inventory));
}

TEST(ParameterFetchesTest, WhatIsNeverFetchedIsNoTraffic) {
  const std::vector<std::string> both{"m.lm_head.weight", "m.lm_head.modules_to_save.a.weight"};
  Inventory inventory = model_of(both);
  inventory.tensors[0].is_trained = false;
  constexpr const char* kNone = R"("stage3_prefetch_bucket_size": 0)";
  const SwapPlan plan =
      make_swap_plan(setup_of(std::move(inventory), kNone), test::baseline_machine());
  EXPECT_LE(plan.traffic.read_bytes, 2 * 2 * kMiB) << "the copy's two fetches";
}

TEST(ParameterFetchesTest, TheInventoryKnowsBest) {
  Inventory inventory = model_of({"model.embed_tokens.weight", "model.layers.0.up.weight"});
  inventory.ties.emplace();
  EXPECT_THAT(fetches_of(inventory), ElementsAre(2, 2));
  inventory.ties->push_back({"strange.weight", "model.embed_tokens.weight"});
  inventory.ties->push_back({"lm_head.weight", "no such tensor"});
  EXPECT_THAT(fetches_of(inventory), ElementsAre(4, 2));
}

TEST(ParameterFetchesTest, ModulesAroundParametersAreCalledButListsAreNot) {
  Inventory inventory = model_of({"model.embed.weight", "model.layers.0.q.weight",
                                  "model.layers.0.q.bias", "model.layers.0.o.weight"});
  inventory.ties.emplace();
  std::vector<std::vector<std::size_t>> calls;
  for (const ModuleCall& call :
       module_calls(setup_of(inventory, R"("round_robin_gradients": true)"))) {
    calls.push_back(call.parameters);
  }
  const std::vector<std::size_t> none;
  const std::vector<std::size_t> q{1, 2};
  EXPECT_EQ(calls, (std::vector<std::vector<std::size_t>>{
                       none,
                       none,
                       {0},
                       none,
                       q,
                       {3},  // forward: model, embedding, layer
                       none,
                       none,
                       none,
                       {3},
                       q,
                       {0}}))  // backward: the outer ones come first, too
      << "the list of layers is no call of its own";
}

// DeepSpeed looks ahead at each call, of modules without parameters as well. So the turn from
// forward to backward finds more of the last layers still gathered.
TEST(ParameterFetchesTest, EveryCallLooksAhead) {
  std::vector<std::string> flat;
  std::vector<std::string> deep;
  for (int layer = 0; layer < 8; ++layer) {
    for (const char* name : {"q", "k", "v", "o"}) {
      flat.push_back(fmt::format("l{}{}.weight", layer, name));
      deep.push_back(fmt::format("model.layers.{}.self_attn.{}.weight", layer, name));
    }
  }
  const auto all = [](const std::vector<std::string>& names) {
    const TrainingSetup setup =
        setup_of(model_of(names),
                 R"("stage3_prefetch_bucket_size": 3000000, "stage3_max_reuse_distance": 0)");
    const SwapPlan plan = make_swap_plan(setup, test::baseline_machine());
    const auto& fetches = plan.fetches.by_tensor;
    return std::accumulate(fetches.begin(), fetches.end(), 0U);
  };
  EXPECT_LT(all(deep), all(flat));
}

}  // namespace
}  // namespace penstock
