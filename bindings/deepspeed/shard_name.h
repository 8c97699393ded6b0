#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// What the name of a file in the folder of a tag says, as DeepSpeed's engine makes these names
/// (runtime/engine.py: _get_ckpt_name, _get_zero_ckpt_name, _get_expert_ckpt_name).
struct ShardName {
  enum class Kind : std::uint8_t {
    kModel,      ///< `mp_rank_00_model_states.pt`, `zero_pp_rank_0_mp_rank_00_model_states.pt`
    kOptimizer,  ///< `[bf16_|fp16_]zero_pp_rank_0_mp_rank_00_optim_states.pt`
    kExpert,     ///< `layer_0_expert_1_mp_rank_00_model_states.pt`, `expp_rank_…_optim_states.pt`
    kLayer,      ///< `layer_03-model_00-model_states.pt`, `layer_03-model_states.pt`: a pipeline's
    kState,      ///< `zero/layers.0.weight/exp_avg.pt`: of a universal checkpoint, by its folder
  };
  Kind kind = Kind::kModel;
  std::optional<std::uint32_t>
      rank{};  ///< among data-parallel ranks; none where all share the file
  std::uint32_t mp_rank = 0;
  std::string prefix{};                   ///< kOptimizer: `bf16_`, `fp16_` or nothing
  std::uint32_t layer = 0;                ///< kLayer, kExpert
  std::optional<std::uint32_t> expert{};  ///< kExpert; none: `rank` says whose optimizer's it is
};

using ShardKind = ShardName::Kind;

/// Nothing for any other name.
std::optional<ShardName> parse_shard_name(std::string_view name);

/// Of the file that DeepSpeed looks for; of kModel, kOptimizer and kExpert.
std::string shard_file_name(const ShardName& shard);

std::string_view shard_kind_name(ShardName::Kind kind) noexcept;  ///< `model`, `optimizer`…

}  // namespace penstock
