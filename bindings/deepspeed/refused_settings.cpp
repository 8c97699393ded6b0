#include "bindings/deepspeed/refused_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "alloc/counted.h"
#include "alloc/excerpt.h"
#include "alloc/lower_case.h"
#include "bindings/deepspeed/config_value.h"
#include "bindings/deepspeed/training_setup.h"
#include "swap/plan/saturating.h"

namespace penstock {
namespace {

using nlohmann::json;

struct Refusal {
  const char* pointer;  ///< of JSON
  bool (*applies)(const json& value);
  RefusedSetting setting;
};

bool is_there(const json&) {
  return true;
}

bool is_on(const json& value) {
  return json_flag(value).value_or(false);
}

bool is_above_zero(const json& value) {
  return json_count(value).value_or(0) > 0;
}

bool is_above_one(const json& value) {
  return json_count(value).value_or(0) > 1;
}

// 0 is as if it were not given.
bool is_below_one(const json& value) {
  const double number = value.is_number() ? value.get<double>() : 0;
  return number > 0 && number < 1;
}

constexpr std::array<Refusal, 9> kRefusals{{
    {"/zero_optimization/zenflow",
     is_there,
     {"zero_optimization.zenflow",
      "zero_optimization.zenflow does not work with tensors on NVMe: ZenFlow steps part of the "
      "weights with states of its own, which are not swapped; remove `zenflow`, or offload to "
      "device cpu"}},
    {"/zero_optimization/offload_optimizer/super_offload",
     is_on,
     {"zero_optimization.offload_optimizer.super_offload",
      "offload_optimizer.super_offload does not work with tensors on NVMe: SuperOffload steps "
      "masters in other processes, which do not see what is swapped; remove `super_offload`, or "
      "offload to device cpu"}},
    {"/compile/deepcompile",
     is_on,
     {"compile.deepcompile",
      "compile.deepcompile does not work with tensors on NVMe: compiled graphs gather parameters "
      "without the swapper; set `deepcompile` to false, or offload to device cpu"}},
    {"/zero_optimization/zero_hpz_partition_size",
     is_above_one,
     {"zero_optimization.zero_hpz_partition_size",
      "zero_hpz_partition_size does not work with parameters on NVMe: DeepSpeed has no place for "
      "their second partition; set it to 1, or offload_param.device to cpu",
      true}},
    {"/zero_optimization/offload_optimizer/ratio",
     is_below_one,
     {"zero_optimization.offload_optimizer.ratio",
      "offload_optimizer.ratio below 1 does not work with parameters on NVMe: DeepSpeed makes the "
      "masters of swapped parameters in host memory only; set `ratio` to 1, or "
      "offload_param.device to cpu",
      true}},
    {"/zero_optimization/mics_shard_size",
     is_above_zero,
     {"zero_optimization.mics_shard_size",
      "zero_optimization.mics_shard_size does not work with tensors on NVMe: MiCS gathers "
      "parameters in a way that penstock was not tested with; remove it, or offload to device "
      "cpu"}},
    {"/zero_optimization/zero_quantized_weights",
     is_on,
     {"zero_optimization.zero_quantized_weights",
      "zero_optimization.zero_quantized_weights does not work with tensors on NVMe: penstock was "
      "not tested with quantized tensors; set it to false, or offload to device cpu"}},
    {"/zero_optimization/zero_quantized_nontrainable_weights",
     is_on,
     {"zero_optimization.zero_quantized_nontrainable_weights",
      "zero_optimization.zero_quantized_nontrainable_weights does not work with tensors on NVMe: "
      "penstock was not tested with quantized tensors; set it to false, or offload to device "
      "cpu"}},
    {"/zero_optimization/zero_quantized_gradients",
     is_on,
     {"zero_optimization.zero_quantized_gradients",
      "zero_optimization.zero_quantized_gradients does not work with tensors on NVMe: penstock was "
      "not tested with quantized tensors; set it to false, or offload to device cpu"}},
}};

constexpr RefusedSetting kDurable{
    "penstock.mode",
    "penstock.mode is 'durable': training swaps to scratch stores, leave it out or say 'scratch'"};

PlanWarning refusal(const RefusedSetting& setting) {
  return {"refused", std::string(setting.sentence), std::string(setting.key), {}, true};
}

// Those whose states and step the plan knows; torch's have capital letters.
bool is_known(const std::string& type) {
  constexpr std::array<std::string_view, 9> kKnown{"adam",    "adamw", "lion",  "adagrad", "adamax",
                                                   "rmsprop", "sgd",   "nadam", "radam"};
  constexpr std::array<std::string_view, 3> kAsWritten{"ASGD", "Adadelta", "Adafactor"};
  const std::string lower = lower_case(type);
  return lower.find("8bit") != std::string::npos || lower.find("4bit") != std::string::npos ||
         std::ranges::count(kKnown, std::string_view(lower)) != 0 ||
         std::ranges::count(kAsWritten, std::string_view(type)) != 0;
}

}  // namespace

std::vector<RefusedSetting> all_refused_settings() {
  std::vector<RefusedSetting> settings;
  std::ranges::transform(kRefusals, std::back_inserter(settings), &Refusal::setting);
  return settings;
}

std::vector<RefusedSetting> refused_settings(const json& file) {
  std::vector<RefusedSetting> refused;
  for (const Refusal& each : kRefusals) {
    const json::json_pointer pointer(each.pointer);
    if (file.contains(pointer) && !file[pointer].is_null() && each.applies(file[pointer])) {
      refused.push_back(each.setting);
    }
  }
  return refused;
}

std::vector<PlanWarning> warn_about_refusals(const TrainingSetup& setup) {
  std::vector<PlanWarning> warnings;
  const auto& offload = setup.config.deepspeed.offload_optimizer;
  const bool swaps_parameters = setup.param_device() == OffloadDevice::kNvme;
  const bool swaps_optimizer =
      setup.stage == 3 && offload && offload->device == OffloadDevice::kNvme;
  if (!setup.has_config || (!swaps_parameters && !swaps_optimizer)) {
    return warnings;
  }
  for (const RefusedSetting& setting : setup.config.deepspeed.refused) {
    if (swaps_parameters || !setting.needs_parameters) {
      warnings.push_back(refusal(setting));
    }
  }
  if (setup.config.penstock.mode == StoreMode::kDurable) {
    warnings.push_back(refusal(kDurable));
  }
  return warnings;
}

std::vector<PlanWarning> warn_about_masters(const TrainingSetup& setup) {
  const DeepSpeedConfig& file = setup.config.deepspeed;
  const std::string& key = file.narrow_masters_key;
  const bool has_zero = setup.has_config && setup.stage > 0;
  if (!has_zero || setup.optimizer == OptimizerKind::kNone || key.empty()) {
    return {};
  }
  std::string why;
  if (setup.optimizer_device() == OffloadDevice::kNone) {
    why = file.keeps_narrow_states
              ? ""
              : "takes masters of 16 bits only where the optimizer is offloaded; set "
                "zero_optimization.offload_optimizer.device to nvme or cpu";
  } else if (!file.steps_narrow_masters && !setup.optimizer_is_given) {
    why = fmt::format(
        "takes masters of 16 bits only with its own CPU Adam, not with {}{}; make the "
        "optimizer AdamW or Adam without torch_adam",
        lower_case(file.optimizer_type).starts_with("adam") ? "torch's " : "",
        excerpt(file.optimizer_type));
  }
  if (why.empty()) {
    return {};
  }
  std::string text = fmt::format("{} is on: DeepSpeed {}, or leave the key out", key, why);
  return {{"refused", std::move(text), key, {}, true}};
}

std::vector<PlanWarning> warn_about_batches(const TrainingSetup& setup) {
  const DeepSpeedConfig& file = setup.config.deepspeed;
  const std::uint64_t ranks = setup.world_size;
  const std::uint64_t total = file.train_batch_size;
  if (setup.has_config && !file.has_batch_size) {
    return {{"batch-sizes",
             "the configuration has neither train_batch_size nor train_micro_batch_size_per_gpu, "
             "so that DeepSpeed will not begin unless the script adds one; launchers replace "
             "\"auto\" alone",
             "train_micro_batch_size_per_gpu"}};
  }
  if (!setup.has_config || total == 0) {
    return {};
  }
  // DeepSpeed divides likewise for what the file lacks, and then compares.
  std::uint64_t micro = file.micro_batch_size;
  std::uint64_t passes = file.gradient_accumulation_steps;
  if (micro == 0) {
    micro = total / std::max<std::uint64_t>(passes, 1) / ranks;
    passes = std::max<std::uint64_t>(passes, 1);
  } else if (passes == 0) {
    passes = total / micro / ranks;
  }
  if (multiply_saturating(multiply_saturating(micro, passes), ranks) == total) {
    return {};
  }
  return {{"batch-sizes",
           fmt::format("train_batch_size of {} is not {} a pass x {} x {}, so "
                       "that DeepSpeed will not begin; --world-size says how many ranks there are",
                       total, counted(micro, "sample"), counted(passes, "pass"),
                       counted(ranks, "rank")),
           "train_batch_size"}};
}

std::vector<PlanWarning> warn_about_optimizer(const TrainingSetup& setup) {
  const std::string& type = setup.config.deepspeed.optimizer_type;
  if (!setup.swaps_optimizer() || setup.optimizer_is_given || is_known(type)) {
    return {};
  }
  if (type.empty()) {
    return {{"assumed",
             fmt::format("the configuration has no optimizer; planned as AdamW with {}. With other "
                         "groups the script's sub-groups, or with another optimizer its states, "
                         "differ",
                         setup.splits_vectors() ? "biases and norms in a second group, as Trainer's"
                                                : "all parameters in one group"),
             "optimizer"}};
  }
  return {{"assumed",
           fmt::format("penstock does not know the states of {}; planned with Adam's two for every "
                       "parameter",
                       type),
           "optimizer.type"}};
}

}  // namespace penstock
