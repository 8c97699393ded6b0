#include "cli/memory_formula.h"

#include <fmt/format.h>

#include <array>

#include "alloc/bytes.h"
#include "alloc/lower_case.h"

namespace penstock::cli {
namespace {

std::uint64_t parameter_elements(const TrainingSetup& setup) {
  std::uint64_t elements = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    elements += info.role == Role::kParam ? info.elements() : 0;
  }
  return elements;
}

// ` / 8 ranks`, where the stage divides what `from_stage` divides first.
std::string divided(const TrainingSetup& setup, std::uint32_t from_stage) {
  if (setup.world_size == 1) {
    return {};
  }
  return setup.stage >= from_stage ? fmt::format(" / {} ranks", setup.world_size)
                                   : std::string(", whole on every rank");
}

std::string parameters(const TrainingSetup& setup) {
  const std::optional<DType> dtype = setup.model_dtype();
  return fmt::format("{} parameters x {}{}; ZeRO divides them at stage 3 only",
                     parameter_elements(setup),
                     dtype ? fmt::format("{} bytes ({})", dtype_bytes(*dtype), dtype_name(*dtype))
                           : "the bytes of their types",
                     divided(setup, 3));
}

std::string gradients(const TrainingSetup& setup, const MemoryRow& row) {
  if (setup.optimizer == OptimizerKind::kNone) {
    return "none without an optimizer";
  }
  if (setup.optimizer_device() == OffloadDevice::kCpu) {
    return row.storage == Storage::kDevice
               ? "like the parameters, whole on every rank until the step's last pass"
               : fmt::format(
                     "as wide as the masters{}{}", divided(setup, 1),
                     setup.keeps_two_gradients() ? ", and beside them like the parameters" : "");
  }
  return fmt::format("like the parameters{}; ZeRO divides them from stage 2 on", divided(setup, 2));
}

// Masters and states are of this width: fp32, or a type of 16 bits.
std::string_view type_of_width(std::uint64_t bytes) {
  return bytes == sizeof(float) ? "fp32" : "16 bits";
}

std::string master(const TrainingSetup& setup, const MemoryRow& row) {
  if (setup.optimizer == OptimizerKind::kNone) {
    return "none without an optimizer";
  }
  if (row.bytes_per_rank == 0) {
    return "fp32 parameters are their own masters";
  }
  const std::uint64_t bytes = setup.config.deepspeed.master_element_bytes;
  return fmt::format("{} bytes ({}) a parameter{}; divided from stage 1 on", bytes,
                     type_of_width(bytes), divided(setup, 1));
}

std::string moments(const TrainingSetup& setup) {
  if (setup.optimizer == OptimizerKind::kNone) {
    return "none without an optimizer";
  }
  constexpr std::array<std::string_view, 4> kNumbers{"none", "one", "two", "three"};
  const std::size_t count = setup.optimizer_states().size();
  const std::string& type = setup.config.deepspeed.optimizer_type;
  const bool has_type = setup.optimizer == OptimizerKind::kAdamW && !setup.optimizer_is_given;
  const std::string name =
      has_type && !type.empty() ? lower_case(type) : std::string(optimizer_name(setup.optimizer));
  if (setup.steps_in_chunks()) {
    const StateFormat format = setup.state_formats().narrow;
    return fmt::format("{}, {} of {}{}; divided from stage 1 on", name, kNumbers.at(count),
                       state_format_name(format), divided(setup, 1));
  }
  const std::uint64_t bytes = setup.config.deepspeed.state_element_bytes;
  return fmt::format("{}: {} a parameter{}; divided from stage 1 on, the same at stages 2 and 3",
                     name,
                     setup.optimizer == OptimizerKind::kAdamW
                         ? fmt::format("{} bytes ({} of {})", bytes * count, kNumbers.at(count),
                                       type_of_width(bytes))
                     : setup.optimizer == OptimizerKind::kAdamW8Bit ? "2 bytes"
                                                                    : "1 byte",
                     divided(setup, 1));
}

std::string buffers(const SwapPlan& plan, const MemoryRow& row) {
  if (row.storage == Storage::kPinned) {
    return fmt::format("slots, dedicated buffers and {} of staging",
                       format_bytes(plan.placement.staging_bytes));
  }
  if (row.storage == Storage::kRam && plan.setup.stage < 3) {
    return "new weights of the optimizer in RAM, and the largest gradient";
  }
  if (row.storage == Storage::kRam) {
    return fmt::format(
        "what the runtime holds at once beyond the pool: partitions, or {}, and contents on their "
        "way to the drive",
        plan.setup.steps_in_chunks()
            ? "a chunk of the optimizer's states and the largest parameter's new weights"
            : "the largest sub-group of the optimizer with its gradient");
  }
  if (row.bytes_per_rank != 0 && plan.setup.stage < 3) {
    return "the largest gradient on its way to the optimizer in RAM";
  }
  return row.bytes_per_rank == 0 ? "none"
                                 : fmt::format(
                                       "whole parameters gathered for use, at most "
                                       "{} ({} elements) at a time",
                                       plan.setup.config.written_name("stage3_max_live_parameters"),
                                       plan.setup.config.deepspeed.stage3_max_live_parameters);
}

}  // namespace

std::string memory_formula(const SwapPlan& plan, const MemoryRow& row) {
  switch (row.component) {
    case Component::kParameters:
      return parameters(plan.setup);
    case Component::kGradients:
      return gradients(plan.setup, row);
    case Component::kMaster:
      return master(plan.setup, row);
    case Component::kMoments:
      return moments(plan.setup);
    case Component::kActivations:
      return row.bytes_per_rank == 0 ? "not given (--activations)" : "as given; never derived";
    case Component::kBuffers:
      return buffers(plan, row);
  }
  return {};
}

}  // namespace penstock::cli
