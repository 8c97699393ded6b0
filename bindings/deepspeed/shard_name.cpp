#include "bindings/deepspeed/shard_name.h"

#include <fmt/format.h>

#include <charconv>

namespace penstock {
namespace {

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) {
    return false;
  }
  text.remove_prefix(expected.size());
  return true;
}

bool take_number(std::string_view& text, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::optional<ShardName> parse_layer(std::string_view text) {
  ShardName shard{.kind = ShardKind::kLayer};
  std::uint32_t expert = 0;
  if (!take_number(text, shard.layer)) {
    return std::nullopt;
  }
  if (text == "-model_states.pt") {  // of a pipeline without a model axis
    return shard;
  }
  if (take(text, "-model_")) {
    return take_number(text, shard.mp_rank) && text == "-model_states.pt" ? std::optional(shard)
                                                                          : std::nullopt;
  }
  shard.kind = ShardKind::kExpert;
  const bool fits = take(text, "_expert_") && take_number(text, expert) &&
                    take(text, "_mp_rank_") && take_number(text, shard.mp_rank) &&
                    text == "_model_states.pt";
  shard.expert = expert;
  return fits ? std::optional(shard) : std::nullopt;
}

}  // namespace

std::optional<ShardName> parse_shard_name(std::string_view name) {
  ShardName shard;
  std::uint32_t rank = 0;
  if (take(name, "layer_")) {
    return parse_layer(name);
  }
  for (const std::string_view prefix : {"bf16_", "fp16_"}) {
    if (take(name, prefix)) {
      shard.prefix = prefix;
    }
  }
  const bool of_experts = take(name, "expp_rank_");
  if (of_experts || take(name, "zero_pp_rank_")) {
    if (!take_number(name, rank) || !take(name, "_")) {
      return std::nullopt;
    }
    shard.rank = rank;
  }
  if (!take(name, "mp_rank_") || !take_number(name, shard.mp_rank)) {
    return std::nullopt;
  }
  const bool is_model = name == "_model_states.pt";
  // Without '_' before DeepSpeed 0.3.14.
  if (!is_model && name != "_optim_states.pt" && name != "optim_states.pt") {
    return std::nullopt;
  }
  shard.kind = of_experts ? ShardKind::kExpert
               : is_model ? ShardKind::kModel
                          : ShardKind::kOptimizer;
  return shard;
}

std::string shard_file_name(const ShardName& shard) {
  if (shard.kind == ShardKind::kExpert) {
    return shard.expert ? fmt::format("layer_{}_expert_{}_mp_rank_{:02}_model_states.pt",
                                      shard.layer, *shard.expert, shard.mp_rank)
                        : fmt::format("expp_rank_{}_mp_rank_{:02}_optim_states.pt",
                                      shard.rank.value_or(0), shard.mp_rank);
  }
  const bool is_model = shard.kind == ShardKind::kModel;
  const std::string rank = shard.rank ? fmt::format("zero_pp_rank_{}_", *shard.rank) : "";
  return fmt::format("{}{}mp_rank_{:02}_{}_states.pt", is_model ? "" : shard.prefix, rank,
                     shard.mp_rank, is_model ? "model" : "optim");
}

std::string_view shard_kind_name(ShardName::Kind kind) noexcept {
  switch (kind) {
    case ShardKind::kModel:
      return "model";
    case ShardKind::kOptimizer:
      return "optimizer";
    case ShardKind::kExpert:
      return "expert";
    case ShardKind::kLayer:
      return "layer";
    case ShardKind::kState:
      return "state";
  }
  return "";
}

}  // namespace penstock
