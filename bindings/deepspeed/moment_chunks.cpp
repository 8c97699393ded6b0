#include "bindings/deepspeed/moment_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "swap/plan/name_pattern.h"
#include "swap/update/state_chunk.h"

namespace penstock {

std::vector<MomentChunks> moment_chunks(const TrainingSetup& setup) {
  if (!setup.steps_in_chunks()) {
    return {};
  }
  const StateFormats formats = setup.state_formats();
  std::vector<StateSegment> trained;
  for (const std::size_t place : setup.trained()) {
    const TensorInfo& info = setup.inventory.tensors[place];
    trained.push_back({setup.partition_elements(info), formats.of(info.name, info.elements())});
  }
  std::vector<MomentChunks> chunks;
  for (const SubGroup& group : setup.sub_groups()) {
    chunks.push_back(cut_segments(std::span(trained).subspan(group.first, group.end - group.first),
                                  kStateChunkElements));
  }
  return chunks;
}

std::uint64_t elements_of(std::span<const StateSegment> chunk) noexcept {
  std::uint64_t elements = 0;
  for (const StateSegment& segment : chunk) {
    elements += segment.elements;
  }
  return elements;
}

std::uint64_t swapped_moment_bytes(TrainingSetup setup, StateFormat format) {
  if (!setup.steps_by_kernels() || setup.lists(Role::kMoment)) {
    return 0;
  }
  setup.optimizer = OptimizerKind::kAdamW;
  setup.config.states.narrow = format;
  std::uint64_t bytes = 0;
  for (const MomentChunks& group : moment_chunks(setup)) {
    std::uint64_t of_group = 0;
    std::uint64_t elements = 0;
    for (const std::vector<StateSegment>& chunk : group) {
      of_group += 2 * state_bytes(chunk);
      elements += elements_of(chunk);
    }
    bytes += elements * sizeof(float) < setup.swappable_bytes_min() ? 0 : of_group;
  }
  return bytes;
}

std::vector<PlanWarning> warn_about_states(const TrainingSetup& setup) {
  constexpr std::string_view kKey = "penstock.optimizer_states";
  std::vector<PlanWarning> warnings;
  const StateFormats& states = setup.config.states;
  if (states.narrow == StateFormat::kF32) {
    return warnings;
  }
  const std::string_view name = state_format_name(states.narrow);
  if (!setup.swaps_optimizer()) {
    warnings.push_back(
        {"idle-states",
         fmt::format("optimizer_states is \"{}\" and changes nothing: no optimizer is on NVMe",
                     name),
         std::string(kKey)});
  } else if (!setup.steps_by_kernels()) {
    warnings.push_back(
        {"optimizer-states",
         fmt::format("optimizer_states is \"{}\", and training refuses it: only DeepSpeedCPUAdam "
                     "with masters and states of float32 has such states",
                     name),
         std::string(kKey),
         {},
         true});
  }
  for (const std::string& pattern : states.fp32_patterns) {
    if (std::ranges::none_of(setup.inventory.tensors, [&](const TensorInfo& info) {
          return setup.trains(info) && matches_pattern(pattern, info.name);
        })) {
      warnings.push_back(
          {"idle-pattern",
           fmt::format("fp32_states has \"{}\", which matches no parameter that is trained",
                       pattern),
           "penstock.fp32_states"});
    }
  }
  return warnings;
}

}  // namespace penstock
